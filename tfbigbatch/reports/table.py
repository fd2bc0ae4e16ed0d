"""The numbers of a report's rows and their table, rendered as Markdown here and as HTML by `html`."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfbigbatch.run_directory.directory import DIVERGED, DONE, RUNNING

if TYPE_CHECKING:
    from tfbigbatch.reports.collect import Row
    from tfbigbatch.run_directory.metric import Metric


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
        "progress": max((each["step"] / max(1, each.get("total_steps", each["step"])) for each in started), default=0),
        "seconds": statistics.median(run.status.get("seconds", 0.0) for run in finished) if finished else None,
        "updates_to_target": None,
        "tuned": row.tuned,
        "config": row.config,
    }
    if target is not None and whole:
        reached = [[step for step, v in run.curve(metric).items() if metric.reaches(v, target)] for run in finished]
        if all(reached):
            numbers["updates_to_target"] = statistics.fmean(map(min, reached))
    return numbers


@dataclasses.dataclass(frozen=True)
class Table:
    """Cells as text, with headings.

    Attributes:
      headings: of the columns.
      rows: one text for each column.
      texts: the headings of the columns that hold words; all others are aligned to the right.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: frozenset[str] = frozenset()

    def markdown(self) -> list[str]:
        """The lines of a Markdown table, aligned in plain text as well."""
        widths = [max(3, *map(len, column)) for column in zip(self.headings, *self.rows)]
        is_text = [heading in self.texts for heading in self.headings]
        rules = ["-" * width if text else "-" * (width - 1) + ":" for width, text in zip(widths, is_text)]
        return [
            "| " + " | ".join(c.ljust(w) if text else c.rjust(w) for c, w, text in zip(line, widths, is_text)) + " |"
            for line in (self.headings, rules, *self.rows)
        ]


def results_table(
    summary: Sequence[Numbers], metric: Metric, target: float | None = None, heading: str = "run"
) -> Table:
    """The table of a summary.

    Args:
      summary: from `summarise`.
      metric: the task's target.
      target: value of the metric; adds a column with the steps to it.
      heading: of the first column.
    """
    counts = {len(row["seeds"]) for row in summary}
    finished = all(state == DONE for row in summary for state in row["status"])
    # The number of seeds is in the heading where all rows have it; else in a column that also shows missing runs.
    uniform = finished and len(counts) == 1
    title = metric.title
    if counts != {1}:
        title += ", mean ± s.d." + (f" of {max(counts)} seeds" if uniform else "")
    columns: list[tuple[str, Callable[[Numbers], str]]] = [
        (heading, lambda row: row["name"]),
        ("batch", lambda row: f"{row['batch_size']:,}"),
        (title, lambda row: _value(row, metric)),
        *([] if uniform else [("seeds", _seeds)]),
        ("steps", lambda row: _number(row["steps"])),
        *([] if target is None else [(f"steps to {metric.shown_target(target)}", _steps_to_target)]),
        ("seconds", lambda row: "" if row["seconds"] is None else f"{row['seconds']:,.1f}"),
        *([("tuned", lambda row: row["tuned"])] if any(row["tuned"] for row in summary) else []),
    ]
    rows = [[cell(row) for _, cell in columns] for row in summary]
    return Table([name for name, _ in columns], rows, frozenset({heading, "tuned"}))


def _value(row: Numbers, metric: Metric) -> str:
    diverged = row["status"].count(DIVERGED)
    if diverged:
        return "diverged" if diverged == len(row["status"]) else f"{diverged} of {len(row['status'])} diverged"
    if row["mean"] is not None:
        spread = row["standard_deviation"]
        return metric.shown(row["mean"]) + ("" if spread is None else f" ± {metric.shown(spread)}")
    if DONE in row["status"]:
        return "not evaluated"
    if row["progress"]:
        return f"{'running' if RUNNING in row['status'] else 'stopped'} at {row['progress']:.0%}"
    return row["status"][0]


def _seeds(row: Numbers) -> str:
    ended, of = sum(state in (DONE, DIVERGED) for state in row["status"]), len(row["seeds"])
    return str(of) if ended == of else f"{ended} of {of}"


def _steps_to_target(row: Numbers) -> str:
    if row["updates_to_target"] is not None:
        return _number(round(row["updates_to_target"]))
    return "never" if any(state in (DONE, DIVERGED) for state in row["status"]) else ""


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
