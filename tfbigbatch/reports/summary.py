"""The numbers of a row: final metric, steps and time to a target, critical batch size."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tfbigbatch.runs.run_directory import DIVERGED, DONE

if TYPE_CHECKING:
    from tfbigbatch.reports.collect import Row, Run
    from tfbigbatch.runs.metric import Metric
    from tfbigbatch.runs.metrics_log import Scalars

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


def common_target(rows: Iterable[Row], metric: Metric) -> float | None:
    """A value of the metric, in three digits, that every seed of at least half of the finished rows reaches.

    None where fewer than two batch sizes have finished.
    """
    reached = []
    for row in rows:
        curves = [run.curve(metric) for run in row.runs if run.state_by(metric) == DONE]
        if len(curves) == len(row.runs) and all(curves):
            best = [metric.best(curve.values()) for curve in curves]
            reached.append((row.batch_size, max(best, key=metric.order)))
    if len({batch_size for batch_size, _ in reached}) < 2:
        return None
    values = sorted((value for _, value in reached), key=metric.order)
    return _rounded(values[len(values) // 2], metric)


def _rounded(value: float, metric: Metric) -> float:
    """The value in three digits, rounded to the worse side."""
    if not value:
        return value
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 2)
    towards = math.floor if metric.higher_is_better else math.ceil
    return float(f"{towards(value / unit) * unit:.3g}")


@dataclasses.dataclass(frozen=True)
class CriticalBatch:
    """The critical batch size that a run's `GradientNoiseScale` measured last.

    Attributes:
      name: of the run's row.
      batch_size: of the training.
      step: of the measurement.
      value: the critical batch size, in examples.
      low, high: ends of its interval; `high` may be infinite.
    """

    name: str
    batch_size: int
    step: int
    value: float
    low: float
    high: float

    @property
    def shown(self) -> str:
        """A line of text: LEGW at 512, step 100: 340 (210 to 600)."""
        high = f"{self.high:,.0f}" if math.isfinite(self.high) else "∞"
        return f"{self.name} at {self.batch_size:,}, step {self.step:,}: {self.value:,.0f} ({self.low:,.0f} to {high})"


def critical_batch(row: Row, scalars: Callable[[Run], Scalars]) -> CriticalBatch | None:
    """The CriticalBatch of a row's first run that measured one; None where none did."""
    for run in row.runs:
        seen = scalars(run)
        value, step = seen.last("train", "noise_scale/critical_batch_size")
        # It is undefined while the estimate of |G|^2 is not positive.
        if value is not None and step is not None and value > 0.0:
            low, high = (seen.series("train", f"noise_scale/{end}").get(step) for end in ("low", "high"))
            # An open end is not logged.
            return CriticalBatch(row.name, row.batch_size, step, value, low or 0.0, high or math.inf)
    return None
