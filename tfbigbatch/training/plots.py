"""The plots of a report, one function each; colours and markers that do not need colour vision."""

import collections
import contextlib
import statistics

from tfbigbatch.errors import missing_extra
from tfbigbatch.training.run_directory import writing

# Okabe and Ito's colours, less their yellow (too pale on white), and two of Tol's; black is the baseline's.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#999933")
_MARKERS = "osD^vPX*"


def against_batch(path, summary, metric, title, baseline=None):
    """The metric at the end against batch size: a line a name, s.d. as bars, the baseline as a band.

    The axis is zoomed in to where most rows are; a point off it is a triangle at the edge, with its value.
    """
    shown = [row for row in summary if row["mean"] is not None]
    reference = _baseline(shown, baseline)
    styles = _styles(summary, baseline)
    with _figure(path, title, len(shown)) as (figure, axes):
        edges = [row["mean"] + sign * (row["standard_deviation"] or 0) for row in shown for sign in (0, 1, -1)]
        low, high = zoomed([row["mean"] for row in shown], metric, edges)
        if reference is not None:
            spread = reference["standard_deviation"] or 0
            axes.axhspan(reference["mean"] - spread, reference["mean"] + spread, color="black", alpha=0.12, lw=0)
            label = f"{reference['name']} at {reference['batch_size']:,}: {metric.shown(reference['mean'])}"
            axes.axhline(reference["mean"], color="black", linewidth=1.2, linestyle="--", label=label)
        lines = _lines(shown, baseline if reference is not None else None)
        places, off = _places(lines), {}
        for name, rows in lines.items():
            batches = [places[id(row)] for row in rows]
            means = [row["mean"] for row in rows]
            bars = [row["standard_deviation"] or 0 for row in rows]
            axes.errorbar(batches, means, bars, label=name, capsize=2.5, **styles[name])
            for batch, row in zip(batches, rows):
                if not low <= row["mean"] <= high:
                    rank = off[row["batch_size"]] = off.get(row["batch_size"], 0) + 1
                    _off_the_axis(axes, batch, row["mean"], low, high, rank, metric, styles[name]["color"])
        axes.set_ylim(low, high)
        _batch_axis(axes, [row["batch_size"] for rows in lines.values() for row in rows])
        _percent(axes, metric)
        axes.set_ylabel(f"{metric.title} at the end")
        _legend_beside(axes)


def curves(path, rows, metric, title):
    """The metric against updates: the mean of each row's seeds, from least to most shaded.

    Args:
      path: of the PNG.
      rows: list of `runs.Row`; those still running are drawn as far as they are.
      metric: `metric.Metric`.
      title: of the figure.
    """
    styles = _styles([{"name": row.name} for row in rows], None)
    drawn = [(row, _mean_curve(row, metric)) for row in rows]
    ends = [curve.mean[-1] for _, curve in drawn if curve.steps]
    with _figure(path, title, len(ends)) as (figure, axes):
        for row, curve in drawn:
            _curve(axes, curve, f"{row.name} (batch {row.batch_size:,})", metric, styles[row.name])
        axes.set_xscale("log")
        axes.set_xlabel("updates (log scale)")
        _curve_axis(axes, ends, metric)
        axes.legend(frameon=False, fontsize=9, loc="lower right" if metric.higher_is_better else "upper right")


def curves_by_batch(path, rows, metric, title, baseline=None):
    """As `curves`, a panel a batch size; the baseline's end is a line across each."""
    reference = next((row for row in rows if row.name == baseline), None)
    others = [row for row in rows if row is not reference] or rows
    drawn = {id(row): _mean_curve(row, metric) for row in rows}
    styles = _styles([{"name": row.name} for row in rows], baseline)
    ends = [curve.mean[-1] for curve in drawn.values() if curve.steps]
    batches = sorted({row.batch_size for row in others})
    with _figure(path, title, len(ends), panels=len(batches)) as (figure, axes):
        for panel, batch in zip([axes] if len(batches) == 1 else axes.flat, batches):
            if reference is not None and drawn[id(reference)].steps:
                end = drawn[id(reference)].mean[-1]
                label = f"{baseline} at {reference.batch_size:,}  {metric.shown(end)}"
                panel.axhline(end, color="black", linewidth=1.2, linestyle="--", label=label)
            for row in others:
                if row.batch_size == batch:
                    _curve(panel, drawn[id(row)], row.name, metric, styles[row.name])
            panel.set_title(f"batch {batch:,}", fontsize=10)
            panel.set_xlim(left=0)
            panel.set_xlabel("updates")
            _curve_axis(panel, ends, metric)
            _legend_beside(panel)


def updates_to_target(path, summary, metric, title, target, baseline=None):
    """Updates to the target against batch size, with the line of the baseline's updates over the batch's growth."""
    shown = [row for row in summary if row["updates_to_target"]]
    reference = _baseline(shown, baseline)
    styles = _styles(summary, baseline)
    with _figure(path, title, len(shown)) as (figure, axes):
        batches = [row["batch_size"] for row in summary]
        if reference is not None:
            ideal = [reference["updates_to_target"] * reference["batch_size"] / batch for batch in sorted(set(batches))]
            axes.plot(sorted(set(batches)), ideal, color="gray", linestyle=":", label="ideal: 1 / batch")
        names = list(dict.fromkeys(row["name"] for row in summary if row["mean"] is not None or row in shown))
        lines = _lines(shown, None)
        places = _places(lines)
        for name in names:
            rows = lines.get(name, [])
            label = name if rows else f"{name} (never)"
            values = [row["updates_to_target"] for row in rows]
            axes.plot([places[id(row)] for row in rows], values, label=label, **styles[name])
        _batch_axis(axes, batches)
        if shown:  # An axis without values cannot be logarithmic.
            axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_ylabel(f"updates to {metric.shown_target(target)} test {metric.name}")
        _legend_beside(axes)


def seconds(path, summary, title, baseline=None):
    """Seconds of a run against batch size."""
    shown = [row for row in summary if row["seconds"] is not None]
    styles = _styles(summary, baseline)
    with _figure(path, title, len(shown)) as (figure, axes):
        lines = _lines(shown, None)
        places = _places(lines)
        for name, rows in lines.items():
            values = [row["seconds"] for row in rows]
            axes.plot([places[id(row)] for row in rows], values, label=name, **styles[name])
        _batch_axis(axes, [row["batch_size"] for row in shown])
        axes.set_ylim(bottom=0)
        axes.set_ylabel("seconds of a run, median")
        _legend_beside(axes)


def zoomed(values, metric, edges=(), widen=1.0):
    """The limits of a y-axis that tells the good values apart: the worst may fall off it.

    Args:
      values: what is drawn.
      metric: `metric.Metric`.
      edges: ends of error bars; those better than the best value stay on the axis.
      widen: factor of the span.
    """
    if not values:
        return 0.0, 1.0
    best, worst = metric.best(values), -metric.order(max(values, key=metric.order))
    worst = worst if metric.higher_is_better else -worst
    span = min(abs(best - worst), 2.0 * abs(best - statistics.median(values))) or abs(best - worst)
    span = widen * span or 0.01 * abs(best) or 1.0
    outmost = metric.best([best, *edges])
    if metric.higher_is_better:
        return best - 1.1 * span, outmost + 0.1 * span
    return outmost - 0.1 * span, best + 1.1 * span


@contextlib.contextmanager
def _figure(path, title, count, panels=1):
    """A figure and its axes, saved to `path`; with nothing to draw it says so in place of an empty plot."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        raise missing_extra("matplotlib", "plot") from None
    panels = max(1, panels)
    columns = min(panels, 2)
    lines = -(-panels // columns)
    size = (8, 4.5) if panels == 1 else (13, 4 * lines)
    figure, axes = pyplot.subplots(lines, columns, figsize=size, constrained_layout=True)
    try:
        yield figure, axes
        for spare in [] if panels == 1 else axes.flat[panels:]:
            spare.set_axis_off()
        figure.suptitle(title if count else f"{title}: nothing to draw yet", fontsize=11)
        with writing(path):
            figure.savefig(path, dpi=120)
    finally:
        pyplot.close(figure)


def _styles(summary, baseline):
    """Name to the style of its line, the same in every plot of one report."""
    names = [name for name in dict.fromkeys(row["name"] for row in summary) if name != baseline]
    styles = {baseline: {"color": "black", "marker": "o", "linestyle": "--", "linewidth": 1.6, "markersize": 5}}
    for number, name in enumerate(names):
        styles[name] = {
            "color": _COLOURS[number % len(_COLOURS)],
            "marker": _MARKERS[number % len(_MARKERS)],
            # Past eight the colours come again, dashed.
            "linestyle": ("-", "--", ":", "-.")[number // len(_COLOURS) % 4],
            "linewidth": 1.6,
            "markersize": 5,
        }
    return styles


def _lines(summary, left_out):
    """Name to its rows by batch size."""
    lines = {}
    for row in sorted(summary, key=lambda row: row["batch_size"]):
        if row["name"] != left_out:
            lines.setdefault(row["name"], []).append(row)
    order = list(dict.fromkeys(row["name"] for row in summary))
    return dict(sorted(lines.items(), key=lambda line: order.index(line[0])))


def _baseline(summary, name):
    return next((row for row in summary if row["name"] == name), None)


_Curve = collections.namedtuple("_Curve", "steps mean least most")


def _mean_curve(row, metric):
    """Over the seeds that have begun, at the steps that all of them reached."""
    found = [curve for curve in (run.curve(metric) for run in row.runs) if curve]
    steps = sorted(set.intersection(*map(set, found))) if found else []
    values = [[curve[step] for curve in found] for step in steps]
    return _Curve(steps, [statistics.fmean(v) for v in values], [min(v) for v in values], [max(v) for v in values])


def _curve(axes, curve, label, metric, style):
    if curve.steps:
        colour = style["color"]
        label = f"{label}  {metric.shown(curve.mean[-1])}"
        axes.plot(curve.steps, curve.mean, color=colour, linestyle=style["linestyle"], linewidth=1.6, label=label)
        axes.fill_between(curve.steps, curve.least, curve.most, color=colour, alpha=0.15, linewidth=0)


def _curve_axis(axes, ends, metric):
    # Wider than for the ends alone: the way there is what a curve shows.
    axes.set_ylim(*zoomed(ends, metric, widen=2.0))
    axes.set_ylabel(metric.title)
    _percent(axes, metric)
    axes.grid(alpha=0.3)


def _places(lines):
    """id of a row to where it stands: at its batch size, beside the other rows there, so that none hides another."""
    by_batch = collections.defaultdict(list)
    for rows in lines.values():
        for row in rows:
            by_batch[row["batch_size"]].append(id(row))
    return {
        row: batch * 2 ** (0.07 * (number - (len(rows) - 1) / 2))
        for batch, rows in by_batch.items()
        for number, row in enumerate(rows)
    }


def _legend_beside(axes):
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _off_the_axis(axes, batch, value, low, high, rank, metric, colour):
    below = value < low
    edge, toward = (low, 1) if below else (high, -1)
    axes.plot([batch], [edge], marker="v" if below else "^", color=colour, markersize=8, clip_on=False, zorder=5)
    axes.annotate(
        metric.shown(value),
        (batch, edge),
        xytext=(6, toward * (11 * rank - 4)),
        textcoords="offset points",
        color=colour,
        fontsize=8,
        va="center",
    )


def _batch_axis(axes, batches):
    axes.set_xscale("log", base=2)
    ticks = sorted(set(batches))
    axes.set_xticks(ticks, [f"{batch:,}" for batch in ticks])
    axes.minorticks_off()
    axes.set_xlabel("batch size (log scale)")
    axes.grid(alpha=0.3)


def _percent(axes, metric):
    if metric.is_share:
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.4g}%")
