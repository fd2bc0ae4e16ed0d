"""The numbers of a row: final metric, steps and time, steps to a target."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tfbigbatch.runs.run_directory import DIVERGED, DONE

if TYPE_CHECKING:
    from tfbigbatch.reports.collect import Row
    from tfbigbatch.runs.metric import Metric

Numbers = Mapping[str, Any]
"""A row's dictionary, from `summarise`."""


def summarise(rows: Iterable[Row], metric: Metric, target: float | None = None) -> list[dict[str, Any]]:
    """A dictionary for each row: the final metric at each seed, its mean and standard deviation, steps and seconds.

    A value is None where the run has not finished or diverged (`status` says which): in training, or by a final metric
    that is NaN or infinite. The mean is of the finished runs; a row with a diverged run has none. `updates_to_target`
    is the mean over the seeds of the step of the first evaluation that reaches `target`, None unless every finished
    run does and none diverged.

    Args:
      rows: from `collect`.
      metric: the task's target.
      target: value of the metric, or None.
    """
    return [_numbers(row, metric, target) for row in rows]


def _numbers(row: Row, metric: Metric, target: float | None) -> dict[str, Any]:
    values = [run.value(metric) for run in row.runs]
    known = [value for value in values if value is not None]
    states = [run.state_by(metric) for run in row.runs]
    finished = [run for run, state in zip(row.runs, states) if state == DONE]
    whole = bool(known) and DIVERGED not in states
    started = [run.status for run in row.runs if run.status]
    numbers: dict[str, Any] = {
        "name": row.name,
        "batch_size": row.batch_size,
        "metric": metric.name,
        "seeds": [run.seed for run in row.runs],
        "status": states,
        "values": values,
        "mean": statistics.fmean(known) if whole else None,
        "standard_deviation": statistics.stdev(known) if whole and len(known) > 1 else None,
        "steps": started[0].get("total_steps", started[0]["step"]) if started else None,
        "progress": max(map(_progress, started), default=0),
        "seconds": statistics.median(run.status.get("seconds", 0.0) for run in finished) if finished else None,
        "updates_to_target": None,
        "tuned": row.tuned,
        "config": row.config,
    }
    if target is not None and whole:
        steps = [_first(run.curve(metric), metric, target) for run in finished]
        reached = [step for step in steps if step is not None]
        if len(reached) == len(finished):
            numbers["updates_to_target"] = statistics.fmean(reached)
    return numbers


def _progress(status: Mapping[str, Any]) -> float:
    """The fraction of a run's steps that are done."""
    return status["step"] / max(1, status.get("total_steps", status["step"]))


def _first(curve: Mapping[int, float], metric: Metric, target: float) -> int | None:
    return min((step for step, value in curve.items() if metric.reaches(value, target)), default=None)
