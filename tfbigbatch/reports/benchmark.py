"""The table over all tasks of a benchmark: methods against tasks and batch sizes."""

from __future__ import annotations

from collections.abc import Mapping

from tfbigbatch.reports.report import Report
from tfbigbatch.reports.table import Table


def overview(reports: Mapping[str, Report]) -> Table:
    """A row for each task, batch size and method: the final metric's mean and standard deviation, best first.

    Args:
      reports: by the title of the task.
    """
    lines = []
    for title, report in reports.items():
        metric = report.metric
        rows = [row for row in report.summary if row["mean"] is not None]
        for row in sorted(rows, key=lambda row: (row["batch_size"], metric.order(row["mean"]))):
            spread = row["standard_deviation"]
            shown = metric.shown(row["mean"]) + (f" ± {metric.shown(spread)}" if spread is not None else "")
            batch, steps = f"{row['batch_size']:,}", f"{row['steps']:,}"
            seeds = str(sum(value is not None for value in row["values"]))
            lines.append([title, metric.title, batch, steps, row["name"], shown, seeds, row["tuned"]])
    headings = ("task", "metric", "batch", "steps", "method", "mean ± s.d.", "seeds", "learning rate")
    return Table(headings, lines, frozenset({"task", "metric", "method", "learning rate"}))
