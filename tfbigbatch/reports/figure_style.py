"""What the plots of a report share: figure, axes and legend; colours and markers that do not need colour vision."""

import collections
import contextlib
import textwrap

from tfbigbatch.errors import missing_extra
from tfbigbatch.utils.files import writing_errors

# Okabe and Ito's colours, less their yellow (too pale on white), and two of Tol's; black is the baseline's.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#999933")
_MARKERS = "osD^vPX*"
# Characters of a name on a line.
_LONG = 36


@contextlib.contextmanager
def figure(path, title, count, panels=1, size=None):
    """A figure and its axes, saved to `path`; with nothing to draw it says so in place of an empty plot.

    Args:
      path: of the PNG.
      title: of the figure.
      count: of what is drawn.
      panels: number of axes, two beside each other.
      size: (width, height) in inches; None for the usual one.
    """
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        raise missing_extra("matplotlib", "plot") from None
    panels = max(1, panels)
    columns = min(panels, 2)
    height = -(-panels // columns)
    size = size or ((8, 4.5) if panels == 1 else (13, 4 * height))
    made, axes = pyplot.subplots(height, columns, figsize=size, constrained_layout=True)
    try:
        yield made, axes
        for spare in [] if panels == 1 else axes.flat[panels:]:
            spare.set_axis_off()
        title = title if count else f"{title}: nothing to draw yet"
        # Names of runs may be long: about eleven of their letters go in an inch.
        made.suptitle(plain(textwrap.fill(title, int(11 * size[0]))), fontsize=11)
        with writing_errors(path):
            made.savefig(path, dpi=120)
    finally:
        pyplot.close(made)


def plain(text):
    """A name as matplotlib shows it letter by letter: two dollars would make a formula of what is between them."""
    return text.replace("$", r"\$")


def styles(summary, baseline):
    """Name to the style of its line, the same in every plot of one report."""
    names = [name for name in dict.fromkeys(row["name"] for row in summary) if name != baseline]
    found = {baseline: {"color": "black", "marker": "o", "linestyle": "--", "linewidth": 1.6, "markersize": 5}}
    for number, name in enumerate(names):
        found[name] = {
            "color": _COLOURS[number % len(_COLOURS)],
            "marker": _MARKERS[number % len(_MARKERS)],
            # Past eight the colours come again, dashed.
            "linestyle": ("-", "--", ":", "-.")[number // len(_COLOURS) % 4],
            "linewidth": 1.6,
            "markersize": 5,
        }
    return found


def lines(summary, left_out):
    """Name to its rows by batch size."""
    found = {}
    for row in sorted(summary, key=lambda row: row["batch_size"]):
        if row["name"] != left_out:
            found.setdefault(row["name"], []).append(row)
    order = list(dict.fromkeys(row["name"] for row in summary))
    return dict(sorted(found.items(), key=lambda line: order.index(line[0])))


def places(rows_by_name):
    """id of a row to where it stands: at its batch size, beside the other rows there, so that none hides another."""
    by_batch = collections.defaultdict(list)
    for rows in rows_by_name.values():
        for row in rows:
            by_batch[row["batch_size"]].append(id(row))
    return {
        row: batch * 2 ** (0.07 * (number - (len(rows) - 1) / 2))
        for batch, rows in by_batch.items()
        for number, row in enumerate(rows)
    }


def legend_beside(axes):
    """A legend outside, where there is something to name; long names are broken, to leave the axes their width."""
    if axes.get_legend_handles_labels()[0]:
        legend = axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
        for label in legend.get_texts():
            label.set_text(textwrap.fill(label.get_text(), _LONG, break_long_words=False))


def batch_axis(axes, batches):
    """Batch sizes on the x-axis."""
    axes.set_xscale("log", base=2)
    ticks = sorted(set(batches))
    axes.set_xticks(ticks, [f"{batch:,}" for batch in ticks])
    axes.minorticks_off()
    axes.set_xlabel("batch size (examples an update, log scale)")
    axes.grid(alpha=0.3)


def percent(axes, metric):
    """Shares of 1 in percent on the y-axis."""
    if metric.is_share:
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.4g}%")
