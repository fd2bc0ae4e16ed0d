"""How far each run is, in words: for a page that is read while runs are going."""

import os
import time

from tfbigbatch.runs.run_directory import DIVERGED, DONE, PREEMPTED, RUNNING

_WORDS = {DONE: "ended", DIVERGED: "diverged", PREEMPTED: "preempted; the same command goes on"}


def run_states(rows, scalars, metric, now=None):
    """Lists of texts, a list a run, after one of the headings.

    Args:
      rows: list of `runs.Row`.
      scalars: function of a `runs.Run` that gives its `Scalars`.
      metric: `metric.Metric`.
      now: seconds since the epoch; None for the clock's.
    """
    now = time.time() if now is None else now
    lines = [["run", "batch", "seed", "status", "updates", f"last {metric.title}", "seconds"]]
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
                    # Of a run that is going it is as of its last checkpoint.
                    f"{seconds:,.1f}" if seconds is not None and run.state != RUNNING else "",
                ]
            )
    return lines


def _state(run, now):
    if run.state == RUNNING:
        # Nobody can tell a killed run from a slow one but by its silence.
        written = _last_written(run.directory)
        return "running" if written is None else f"running, wrote {_ago(now - written)} ago"
    reason = run.status.get("reason")
    return f"{_WORDS.get(run.state, run.state)}{f': {reason}' if reason else ''}"


def _progress(run, scalars):
    step, total = max(run.status.get("step", 0), scalars.last_step), run.status.get("total_steps")
    if not total:
        return f"{step:,}" if step else ""
    return f"{step:,} of {total:,} ({step / total:.0%})"


def _last_written(directory):
    times = []
    for name in ("metrics.jsonl", "status.json"):
        try:
            times.append(os.path.getmtime(os.path.join(directory, name)))
        except OSError:  # Not there yet, or being replaced.
            continue
    return max(times, default=None)


def _ago(seconds):
    for unit, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{max(0, seconds):.0f} seconds"
