"""The progress of each run as a table, for a page that is read while runs are in progress."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from tfbigbatch.runs import checkpoint_files
from tfbigbatch.runs.metric import Metric
from tfbigbatch.runs.metrics_log import Scalars
from tfbigbatch.runs.run_directory import DIVERGED, DONE, PREEMPTED, RUNNING

_WORDS = {DONE: "ended", DIVERGED: "diverged", PREEMPTED: "preempted; the same command resumes it"}


def run_states(
    rows: Sequence[Any], scalars: Callable[[Any], Scalars], metric: Metric, now: float | None = None
) -> list[list[str]]:
    """The rows of a table, one for each run, after the row of headings.

    Args:
      rows: list of `reports.collect.Row`.
      scalars: returns the scalars of a `reports.collect.Run`.
      metric: that is shown.
      now: seconds since the epoch; None for the current time.
    """
    now = time.time() if now is None else now
    kept = {run.directory: _best(run, metric) for row in rows for run in row.runs}
    best = [f"best {metric.title}, kept"] if any(kept.values()) else []
    lines = [["run", "batch", "seed", "status", "steps", f"last {metric.title}", *best, "seconds"]]
    for row in rows:
        for run in row.runs:
            value, step = scalars(run).last("eval", metric.name)
            seconds = run.status.get("seconds")
            lines.append(
                [
                    row.name,
                    f"{row.batch_size:,}",
                    str(run.seed),
                    _state(run, now),
                    _progress(run, scalars(run)),
                    "none yet" if value is None else f"{metric.shown(value)} at {step:,}",
                    *([kept[run.directory]] if best else []),
                    # While a run is in progress they are those of its last checkpoint.
                    f"{seconds:,.1f}" if seconds is not None and run.state != RUNNING else "",
                ]
            )
    return lines


def _best(run: Any, metric: Metric) -> str:
    """The evaluation of the checkpoint that the run keeps as its best; '' where it keeps none."""
    kept = checkpoint_files.steps(os.path.join(run.directory, "best"))
    value = run.curve(metric).get(kept[0]) if kept else None
    return "" if value is None else f"{metric.shown(value)} at {kept[0]:,}"


def _state(run: Any, now: float) -> str:
    if run.state == RUNNING:
        # A killed run differs from a slow one only by the time since it wrote.
        written = _last_written(run.directory)
        return "running" if written is None else f"running, wrote {_ago(now - written)} ago"
    reason = run.status.get("reason")
    return f"{_WORDS.get(run.state, run.state)}{f': {reason}' if reason else ''}"


def _progress(run: Any, scalars: Scalars) -> str:
    step, total = max(run.status.get("step", 0), scalars.last_step), run.status.get("total_steps")
    if not total:
        return f"{step:,}" if step else ""
    return f"{step:,} of {total:,} ({step / total:.0%})"


def _last_written(directory: str) -> float | None:
    times = []
    for name in ("metrics.jsonl", "status.json"):
        try:
            times.append(os.path.getmtime(os.path.join(directory, name)))
        except OSError:  # Not there yet, or being replaced.
            continue
    return max(times, default=None)


def _ago(seconds: float) -> str:
    for unit, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{max(0, seconds):.0f} seconds"
