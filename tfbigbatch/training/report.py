"""What a series of runs gave: a table, a results file and a plot."""

import os
import statistics

from tfbigbatch.errors import missing_extra
from tfbigbatch.training.metrics_log import read_rows
from tfbigbatch.training.run_directory import read_json, write_json, writing


def summarise(rows, metric):
    """One dictionary a row of `series.run_series`: the metric at the end at each seed, its mean and spread.

    A run that diverged counts as None, and leaves the mean of its row None.
    """
    summary = []
    for row in rows:
        values = [result.get("metrics", {}).get(metric) for result in row["results"]]
        whole = None not in values
        summary.append(
            {
                "name": row["name"],
                "batch_size": row["config"].batch_size,
                "metric": metric,
                "values": values,
                "mean": statistics.fmean(values) if whole else None,
                "standard_deviation": statistics.stdev(values) if whole and len(values) > 1 else None,
                "steps": row["results"][0]["step"],
                "seconds": statistics.median(result["seconds"] for result in row["results"]),
            }
        )
    return summary


def table(summary):
    """The summary as lines of a Markdown table."""
    metric = summary[0]["metric"]
    seeds = len(summary[0]["values"])
    heading = f"test {metric}" + (f", mean ± s.d. of {seeds} seeds" if seeds > 1 else "")
    cells = [["run", "batch", heading, "steps", "seconds"]]
    for row in summary:
        value = "diverged" if row["mean"] is None else f"{row['mean']:.2%}"
        if row["standard_deviation"] is not None:
            value += f" ± {row['standard_deviation']:.2%}"
        cells.append([row["name"], f"{row['batch_size']:,}", value, f"{row['steps']:,}", f"{row['seconds']:.1f}"])
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    lines = []
    for number, line in enumerate(cells):
        padded = (cell.ljust(w) if column < 1 else cell.rjust(w) for column, (cell, w) in enumerate(zip(line, widths)))
        lines.append("| " + " | ".join(padded) + " |")
        if number == 0:
            rules = ("-" * w if column < 1 else "-" * (w - 1) + ":" for column, w in enumerate(widths))
            lines.append("| " + " | ".join(rules) + " |")
    return lines


def write_results(path, rows, summary):
    """The summary as JSON, with the configs and versions that gave it, and no path of the machine."""
    runs = []
    for row, numbers in zip(rows, summary):
        stored = read_json(os.path.join(row["directories"][0], "config.json"))
        runs.append({**numbers, "config": stored["config"]})
    write_json(path, {"runs": runs, "versions": stored["versions"]})


def plot(path, rows, metric, title):
    """The metric against steps, one curve a row: the mean over its seeds, the spread shaded.

    Raises:
      ValueError: matplotlib is not installed.
    """
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        raise missing_extra("matplotlib", "plot") from None
    figure, axes = pyplot.subplots(figsize=(8, 4.5), constrained_layout=True)
    for row in rows:
        curves = [_curve(directory, metric) for directory in row["directories"]]
        steps = sorted(set.intersection(*(set(curve) for curve in curves)))
        if not steps:
            continue
        values = [[curve[step] for curve in curves] for step in steps]
        label = f"{row['name']} (batch {row['config'].batch_size:,})"
        (line,) = axes.plot(steps, [statistics.fmean(v) for v in values], label=label, linewidth=1.8)
        if len(curves) > 1:
            axes.fill_between(
                steps, [min(v) for v in values], [max(v) for v in values], color=line.get_color(), alpha=0.15
            )
    axes.set_xscale("log")
    axes.set_xlabel("optimizer steps (log scale)")
    axes.set_ylabel(f"test {metric}")
    axes.set_title(title)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", frameon=False)
    with writing(path):
        figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _curve(directory, metric):
    rows = read_rows(os.path.join(directory, "metrics.jsonl"))
    return {row["step"]: row[metric] for row in rows if row["split"] == "eval" and row.get(metric) is not None}
