"""Shared style of the plots: figure, axes, legend, and colours and markers for colour-blind readers."""

from __future__ import annotations

import contextlib
import importlib.util
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tfbigbatch.errors import missing_extra
from tfbigbatch.reports.table import Numbers
from tfbigbatch.utils.files import writing_errors

if TYPE_CHECKING:
    from tfbigbatch.run_directory.metric import Metric

# Okabe and Ito's colours without yellow (too pale on white), and two of Tol's; black is for the baseline.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#999933")
_MARKERS = "osD^vPX*"
# From this ratio of the largest to the smallest value on, an axis is logarithmic.
WIDE = 30.0
# Characters of a legend's line.
_LEGEND_WIDTH = 36


def check_matplotlib() -> None:
    """Raises ValueError if matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise missing_extra("matplotlib", "plot")


def plain(text: str) -> str:
    """Text escaped for matplotlib, which sets what is between two dollar signs as a formula."""
    return text.replace("$", r"\$")


@contextlib.contextmanager
def figure(
    path: str, title: str, count: int, panels: int = 1, size: tuple[float, float] | None = None
) -> Iterator[tuple[Any, list[Any]]]:
    """A context with a figure and the list of its axes, saved to `path` at the end.

    Args:
      path: of the PNG.
      title: of the figure.
      count: number of things drawn; with 0 the title says that there is nothing yet.
      panels: number of axes, in two columns.
      size: (width, height) in inches; None for the default.

    Raises:
      ValueError: matplotlib is not installed, or the file cannot be written.
    """
    check_matplotlib()
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = max(1, panels)
    columns = min(panels, 2)
    height = -(-panels // columns)
    size = size or ((8, 4.5) if panels == 1 else (13, 4 * height))
    made, grid = pyplot.subplots(height, columns, figsize=size, constrained_layout=True, squeeze=False)
    axes = list(grid.flat)
    try:
        yield made, axes[:panels]
        for spare in axes[panels:]:
            spare.set_axis_off()
        title = title if count else f"{title}: nothing to draw yet"
        # Names of runs may be long: about eleven letters fit in an inch.
        made.suptitle(plain(textwrap.fill(title, int(11 * size[0]))), fontsize=11)
        with writing_errors(path):
            made.savefig(path, dpi=120)
    finally:
        pyplot.close(made)


def styles(rows: Iterable[str], baseline: str | None = None) -> dict[str | None, dict[str, Any]]:
    """The line style of each row by its name, the same in every plot of a report."""
    names = [name for name in dict.fromkeys(rows) if name != baseline]
    found: dict[str | None, dict[str, Any]] = {
        baseline: {"color": "black", "marker": "o", "linestyle": "--", "linewidth": 1.6, "markersize": 5}
    }
    for number, name in enumerate(names):
        found[name] = {
            "color": _COLOURS[number % len(_COLOURS)],
            "marker": _MARKERS[number % len(_MARKERS)],
            # After eight lines the colours repeat, dashed.
            "linestyle": ("-", "--", ":", "-.")[number // len(_COLOURS) % 4],
            "linewidth": 1.6,
            "markersize": 5,
        }
    return found


def lines(summary: Iterable[Numbers], left_out: str | None) -> dict[str, list[Numbers]]:
    """The rows of each name except one, sorted by batch size."""
    found: dict[str, list[Numbers]] = {}
    for row in summary:
        if row["name"] != left_out:
            found.setdefault(row["name"], []).append(row)
    return {name: sorted(rows, key=lambda row: row["batch_size"]) for name, rows in found.items()}


def legend_beside(axes: Any) -> None:
    """Adds a legend to the right of the axes, with long names wrapped, if anything has a label."""
    if axes.get_legend_handles_labels()[0]:
        legend = axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
        for label in legend.get_texts():
            label.set_text(textwrap.fill(label.get_text(), _LEGEND_WIDTH, break_long_words=False))


def batch_axis(axes: Any, batches: Iterable[int]) -> None:
    """Makes the x-axis one of batch sizes, on a log scale."""
    axes.set_xscale("log", base=2)
    ticks = sorted(set(batches))
    axes.set_xticks(ticks, [f"{batch:,}" for batch in ticks])
    axes.minorticks_off()
    axes.set_xlabel("batch size (examples per step, log scale)")
    axes.grid(alpha=0.3)


def value_scale(axes: Any, values: Sequence[float], metric: Metric) -> str:
    """Sets the y-axis of a metric's values; returns what its label adds.

    The axis has all values. Accuracies near 1 are drawn on a logit scale, other values on a log scale where the largest
    is over 30 times the smallest: on a linear one their ends would be one line.
    """
    if not values:
        return ""
    low, high = min(values), max(values)
    scale = ""
    if metric.is_fraction and metric.higher_is_better and 0.9 < high <= 1.0 and low > 0.0:
        # A metric without any error is at the upper edge.
        least = min((1.0 - value for value in values if value < 1.0), default=0.1)
        axes.set_yscale("logit", nonpositive="clip")
        axes.set_ylim(0.9 * low, 1.0 - least / 2)
        axes.minorticks_off()
        scale = " (logit scale)"
    elif low > 0.0 and high > WIDE * low:
        axes.set_yscale("log")
        axes.set_ylim(low / 1.1, high * 1.1)
        scale = " (log scale)"
    else:
        margin = 0.05 * (high - low) or 0.01 * abs(high) or 1.0
        axes.set_ylim(low - margin, high + margin)
    if metric.is_fraction:
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.4g}%")
    elif scale:
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    return scale
