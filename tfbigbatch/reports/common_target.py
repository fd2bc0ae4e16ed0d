"""A target to hold runs against where nobody named one."""

import math

from tfbigbatch.runs.run_directory import DONE


def common_target(rows, metric):
    """A round value of the metric that every seed of at least half of the finished rows reaches.

    Args:
      rows: list of `runs.Row`.
      metric: `metric.Metric`.

    Returns:
      The value, in three digits; None where fewer than two batch sizes have finished.
    """
    reached = []
    for row in rows:
        curves = [run.curve(metric) for run in row.runs if run.state == DONE]
        if len(curves) == len(row.runs) and all(curves):
            best = [metric.best(curve.values()) for curve in curves]
            reached.append((row.batch_size, max(best, key=metric.order)))
    if len({batch_size for batch_size, _ in reached}) < 2:
        return None
    values = sorted((value for _, value in reached), key=metric.order)
    return _rounded(values[len(values) // 2], metric)


def _rounded(value, metric):
    """To three digits, and never beyond the value."""
    if not value:
        return value
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 2)
    towards = math.floor if metric.higher_is_better else math.ceil
    return float(f"{towards(value / unit) * unit:.3g}")
