"""The numbers of a summary as a table: its cells, and the same in Markdown."""

from tfbigbatch.runs.run_directory import DIVERGED, DONE, RUNNING


def table(summary, metric, target=None, heading="run"):
    """The lines of a Markdown table, a line a row.

    Args:
      summary: what `summary.summarise` gave.
      metric: `metric.Metric`.
      target: value of the metric whose updates have a column; None for no such column.
      heading: of the first column.
    """
    lines = cells(summary, metric, target, heading)
    texts = {heading, "tuned"}
    widths = [max(3, *(len(line[column]) for line in lines)) for column in range(len(lines[0]))]
    left = [name in texts for name in lines[0]]
    rules = ["-" * width if is_left else "-" * (width - 1) + ":" for width, is_left in zip(widths, left)]
    return [_line(line, widths, left) for line in (lines[0], rules, *lines[1:])]


def cells(summary, metric, target=None, heading="run"):
    """The same table as lists of texts: the headings, and a list a row."""
    counts = {len(row["seeds"]) for row in summary}
    whole = all(state == DONE for row in summary for state in row["status"])
    # One number of seeds for all stands in the heading; else it has a column, which also tells of missing ones.
    alike = whole and len(counts) == 1
    title = metric.title
    if counts != {1}:
        title += ", mean ± s.d." + (f" of {max(counts)} seeds" if alike else "")
    columns = [
        (heading, lambda row: row["name"]),
        ("batch", lambda row: f"{row['batch_size']:,}"),
        (title, lambda row: _value(row, metric)),
        *([] if alike else [("seeds", _seeds)]),
        ("steps", lambda row: _number(row["steps"])),
        *([] if target is None else [(f"steps to {metric.shown_target(target)}", _steps_to_target)]),
        ("seconds", lambda row: "" if row["seconds"] is None else f"{row['seconds']:,.1f}"),
        *([("tuned", lambda row: row["tuned"])] if any(row["tuned"] for row in summary) else []),
    ]
    return [[name for name, _ in columns], *([cell(row) for _, cell in columns] for row in summary)]


def _line(cells, widths, left):
    padded = (cell.ljust(w) if is_left else cell.rjust(w) for cell, w, is_left in zip(cells, widths, left))
    return "| " + " | ".join(padded) + " |"


def _value(row, metric):
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


def _seeds(row):
    ended, of = sum(state in (DONE, DIVERGED) for state in row["status"]), len(row["seeds"])
    return str(of) if ended == of else f"{ended} of {of}"


def _steps_to_target(row):
    if row["updates_to_target"] is not None:
        return _number(round(row["updates_to_target"]))
    return "never" if any(state in (DONE, DIVERGED) for state in row["status"]) else ""


def _number(value):
    return "" if value is None else f"{value:,}"
