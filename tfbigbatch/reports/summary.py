"""From the runs of a row to its numbers."""

import statistics

from tfbigbatch.runs.run_directory import DIVERGED, DONE


def summarise(rows, metric, target=None):
    """One dictionary a row: the metric at the end at each seed, its mean and spread, and what it took.

    A value is None where the run has not finished or diverged (`status` says which). The mean is of the
    finished runs; a row with a diverged run has none. `updates_to_target` is the mean over the seeds of
    the first evaluation that reaches `target`, None unless every finished run does and none diverged;
    `seconds_to_target` is that run's seconds times the share of its updates.

    Args:
      rows: list of `runs.Row`.
      metric: `metric.Metric`.
      target: value of the metric, or None.
    """
    return [_numbers(row, metric, target) for row in rows]


def _numbers(row, metric, target):
    values = [run.value(metric) for run in row.runs]
    known = [value for value in values if value is not None]
    finished = [run for run in row.runs if run.state == DONE]
    whole = bool(known) and all(run.state != DIVERGED for run in row.runs)
    started = [run.status for run in row.runs if run.status]
    numbers = {
        "name": row.name,
        "batch_size": row.batch_size,
        "metric": metric.name,
        "seeds": [run.seed for run in row.runs],
        "status": [run.state for run in row.runs],
        "values": values,
        "mean": statistics.fmean(known) if whole else None,
        "standard_deviation": statistics.stdev(known) if whole and len(known) > 1 else None,
        "steps": started[0].get("total_steps", started[0]["step"]) if started else None,
        "progress": max(map(_progress, started), default=0),
        "seconds": statistics.median(run.status.get("seconds", 0.0) for run in finished) if finished else None,
        "updates_to_target": None,
        "seconds_to_target": None,
        "tuned": row.tuned,
        "config": row.config,
    }
    if target is not None and whole:
        reached = [_first(run.curve(metric), metric, target) for run in finished]
        if None not in reached:
            numbers["updates_to_target"] = statistics.fmean(reached)
            numbers["seconds_to_target"] = statistics.fmean(
                run.status.get("seconds", 0.0) * step / max(1, run.status["step"])
                for run, step in zip(finished, reached)
            )
    return numbers


def _progress(status):
    """The share of a run's updates that are made."""
    return status["step"] / max(1, status.get("total_steps", status["step"]))


def _first(curve, metric, target):
    return min((step for step, value in curve.items() if metric.reaches(value, target)), default=None)
