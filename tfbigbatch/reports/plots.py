"""The plots of a study: final metric, curves, steps to the target and time, against batch size."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tfbigbatch.reports import figure_style
from tfbigbatch.reports.summary import CriticalBatch, Numbers

if TYPE_CHECKING:
    from tfbigbatch.reports.collect import Row
    from tfbigbatch.runs.metric import Metric


def against_batch(
    path: str, summary: Sequence[Numbers], metric: Metric, title: str, baseline: str | None = None
) -> None:
    """The final metric against batch size: a line for each name, s.d. as error bars, the baseline as a band.

    The axis is zoomed to where most rows are; a point outside is a triangle at the edge, with its value.
    """
    shown = [row for row in summary if row["mean"] is not None]
    reference = _baseline(shown, baseline)
    styles = figure_style.styles(summary, baseline)
    with figure_style.figure(path, title, len(shown)) as (figure, axes):
        means = [row["mean"] for row in shown]
        low, high = zoomed(means, metric)
        # Error bars of points outside the axis do not stretch it.
        seen = [row for row in shown if low <= row["mean"] <= high]
        edges = [row["mean"] + sign * (row["standard_deviation"] or 0) for row in seen for sign in (0, 1, -1)]
        low, high = zoomed(means, metric, edges)
        if reference is not None:
            spread = reference["standard_deviation"] or 0
            axes.axhspan(reference["mean"] - spread, reference["mean"] + spread, color="black", alpha=0.12, lw=0)
            label = f"{reference['name']} at {reference['batch_size']:,}: {metric.shown(reference['mean'])}"
            axes.axhline(
                reference["mean"], color="black", linewidth=1.2, linestyle="--", label=figure_style.plain(label)
            )
        lines = figure_style.lines(shown, baseline if reference is not None else None)
        positions = figure_style.positions(lines)
        outside: dict[int, int] = {}
        for name, rows in lines.items():
            batches = [positions[id(row)] for row in rows]
            means = [row["mean"] for row in rows]
            bars = [row["standard_deviation"] or 0 for row in rows]
            axes.errorbar(batches, means, bars, label=figure_style.plain(name), capsize=2.5, **styles[name])
            for batch, row in zip(batches, rows):
                if not low <= row["mean"] <= high:
                    rank = outside[row["batch_size"]] = outside.get(row["batch_size"], 0) + 1
                    _mark_outside(axes, batch, row["mean"], (low, high), rank, metric, styles[name]["color"])
        axes.set_ylim(low, high)
        axes.margins(x=0.1)  # The values of points outside are written beside them.
        figure_style.batch_axis(axes, [row["batch_size"] for rows in lines.values() for row in rows])
        figure_style.percent(axes, metric)
        axes.set_ylabel(figure_style.plain(f"{metric.title} at the end"))
        figure_style.legend_beside(axes)


def curves(path: str, rows: Sequence[Row], metric: Metric, title: str) -> None:
    """The metric against steps: the mean over each row's seeds, with the range shaded; runs in progress included."""
    styles = figure_style.styles([{"name": row.name} for row in rows], None)
    drawn = [(row, _mean_curve(row, metric)) for row in rows]
    found = [curve for _, curve in drawn if curve.steps]
    with figure_style.figure(path, title, len(found)) as (figure, axes):
        for row, curve in drawn:
            _curve(axes, curve, f"{row.name} (batch {row.batch_size:,})", metric, styles[row.name])
        axes.set_xscale("log")
        axes.set_xlabel("steps (log scale)")
        _curve_axis(axes, found, metric)
        axes.legend(frameon=False, fontsize=9, loc="lower right" if metric.higher_is_better else "upper right")


def curves_by_batch(path: str, rows: Sequence[Row], metric: Metric, title: str, baseline: str | None = None) -> None:
    """Like `curves`, with a panel for each batch size and a line at the baseline's final metric."""
    reference = next((row for row in rows if row.name == baseline), None)
    others = [row for row in rows if row is not reference] or rows
    drawn = {id(row): _mean_curve(row, metric) for row in rows}
    styles = figure_style.styles([{"name": row.name} for row in rows], baseline)
    found = [curve for curve in drawn.values() if curve.steps]
    batches = sorted({row.batch_size for row in others})
    with figure_style.figure(path, title, len(found), panels=len(batches)) as (figure, axes):
        for panel, batch in zip([axes] if len(batches) == 1 else axes.flat, batches):
            if reference is not None and drawn[id(reference)].steps:
                end = drawn[id(reference)].mean[-1]
                label = f"{baseline} at {reference.batch_size:,}  {metric.shown(end)}"
                panel.axhline(end, color="black", linewidth=1.2, linestyle="--", label=figure_style.plain(label))
            for row in others:
                if row.batch_size == batch:
                    _curve(panel, drawn[id(row)], row.name, metric, styles[row.name])
            panel.set_title(f"batch {batch:,}", fontsize=10)
            panel.set_xlim(left=0)
            panel.set_xlabel("steps")
            _curve_axis(panel, found, metric)
            figure_style.legend_beside(panel)


def against_learning_rate(path: str, summary: Sequence[Numbers], metric: Metric, title: str) -> None:
    """The final metric of trials against the learning rate: a panel for each batch size, a line for each method.

    A trial is named by its method and its learning rate, "Muon, 0.02".
    """
    lines: dict[int, dict[str, list[tuple[float, float]]]] = {}
    for row in summary:
        rate = row["config"]["schedule"]["learning_rate"]
        method = row["name"].removesuffix(f", {rate:g}")
        points = lines.setdefault(row["batch_size"], {}).setdefault(method, [])
        if row["mean"] is not None and math.isfinite(row["mean"]):
            points.append((rate, row["mean"]))
    found = [value for methods in lines.values() for points in methods.values() for _, value in points]
    styles = figure_style.styles([{"name": name} for methods in lines.values() for name in methods], None)
    with figure_style.figure(path, title, len(found), panels=len(lines)) as (figure, axes):
        for panel, batch in zip([axes] if len(lines) <= 1 else axes.flat, sorted(lines)):
            values = [value for points in lines[batch].values() for _, value in points]
            for name, points in lines[batch].items():
                if points:
                    rates, means = zip(*sorted(points))
                    label = figure_style.plain(f"{name}  {metric.shown(metric.best(means))}")
                    panel.plot(rates, means, label=label, **styles[name])
            panel.set_xscale("log")
            panel.set_ylim(*zoomed(values, metric))
            panel.set_title(f"batch {batch:,}", fontsize=10)
            panel.set_xlabel("peak learning rate (log scale)")
            panel.set_ylabel(figure_style.plain(f"{metric.title} at the end"))
            figure_style.percent(panel, metric)
            panel.grid(alpha=0.3)
            figure_style.legend_beside(panel)


def steps_to_target(
    path: str,
    summary: Sequence[Numbers],
    metric: Metric,
    title: str,
    target: float,
    baseline: str | None = None,
    critical: Sequence[CriticalBatch] = (),
) -> None:
    """Steps to the target against batch size.

    The ideal line, 1 / batch, goes through the baseline; without one, through the smallest batch that reaches the
    target. Where the gradient noise scale was measured, a vertical line with its interval is the critical batch size:
    well below it steps should fall like the ideal line, well above it hardly.
    """
    shown = [row for row in summary if row["updates_to_target"]]
    reference = _baseline(shown, baseline)
    if reference is None:
        reference = min(shown, key=lambda row: (row["batch_size"], row["updates_to_target"]), default=None)
    styles = figure_style.styles(summary, baseline)
    with figure_style.figure(path, title, len(shown)) as (figure, axes):
        batches = [row["batch_size"] for row in summary]
        if reference is not None:
            ideal = [reference["updates_to_target"] * reference["batch_size"] / batch for batch in sorted(set(batches))]
            axes.plot(sorted(set(batches)), ideal, color="gray", linestyle=":", label="ideal: 1 / batch")
        names = list(dict.fromkeys(row["name"] for row in summary if row["mean"] is not None or row in shown))
        lines = figure_style.lines(shown, None)
        positions = figure_style.positions(lines)
        for name in names:
            rows = lines.get(name, [])
            label = name if rows else f"{name} (never)"
            values = [row["updates_to_target"] for row in rows]
            axes.plot([positions[id(row)] for row in rows], values, label=figure_style.plain(label), **styles[name])
        figure_style.batch_axis(axes, batches)
        _critical_batches(axes, critical, batches, styles)
        if shown:  # A log axis needs values.
            axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_ylabel(figure_style.plain(f"steps to {metric.shown_target(target)} {metric.title} (log scale)"))
        figure_style.legend_beside(axes)


def seconds(path: str, summary: Sequence[Numbers], title: str, baseline: str | None = None) -> None:
    """Seconds of a run against batch size."""
    shown = [row for row in summary if row["seconds"] is not None]
    styles = figure_style.styles(summary, baseline)
    with figure_style.figure(path, title, len(shown)) as (figure, axes):
        lines = figure_style.lines(shown, None)
        positions = figure_style.positions(lines)
        for name, rows in lines.items():
            values = [row["seconds"] for row in rows]
            axes.plot([positions[id(row)] for row in rows], values, label=figure_style.plain(name), **styles[name])
        figure_style.batch_axis(axes, [row["batch_size"] for row in shown])
        axes.set_ylim(bottom=0)
        axes.set_ylabel("seconds of a run, median")
        figure_style.legend_beside(axes)


def zoomed(values: Sequence[float], metric: Metric, edges: Iterable[float] = ()) -> tuple[float, float]:
    """The limits of a y-axis on which the good values can be told apart; the worst may be outside.

    Args:
      values: of the points.
      metric: tells which values are good.
      edges: ends of error bars; those better than the best value stay inside.
    """
    if not values:
        return 0.0, 1.0
    best, worst = metric.best(values), -metric.order(max(values, key=metric.order))
    worst = worst if metric.higher_is_better else -worst
    span = min(abs(best - worst), 2.0 * abs(best - statistics.median(values))) or abs(best - worst)
    span = span or 0.01 * abs(best) or 1.0
    outmost = metric.best([best, *edges])
    if metric.higher_is_better:
        return best - 1.1 * span, outmost + 0.1 * span
    return outmost - 0.1 * span, best + 1.1 * span


def _baseline(summary: Iterable[Numbers], name: str | None) -> Numbers | None:
    return next((row for row in summary if row["name"] == name), None)


class _Curve(NamedTuple):
    steps: list[int]
    mean: list[float]
    least: list[float]
    most: list[float]


def _mean_curve(row: Row, metric: Metric) -> _Curve:
    """Over the seeds with evaluations, at the steps that all of them reached."""
    found = [curve for curve in (run.curve(metric) for run in row.runs) if curve]
    steps = sorted(set.intersection(*map(set, found))) if found else []
    values = [[curve[step] for curve in found] for step in steps]
    return _Curve(steps, [statistics.fmean(v) for v in values], [min(v) for v in values], [max(v) for v in values])


def _curve(axes: Any, curve: _Curve, label: str, metric: Metric, style: dict[str, Any]) -> None:
    if curve.steps:
        colour = style["color"]
        label = figure_style.plain(f"{label}  {metric.shown(curve.mean[-1])}")
        axes.plot(curve.steps, curve.mean, color=colour, linestyle=style["linestyle"], linewidth=1.6, label=label)
        axes.fill_between(curve.steps, curve.least, curve.most, color=colour, alpha=0.15, linewidth=0)


def _curve_axis(axes: Any, curves: Sequence[_Curve], metric: Metric) -> None:
    """A y-axis with the whole of all curves, on which their ends can still be told apart."""
    values = [value for curve in curves for value in (*curve.least, *curve.most) if math.isfinite(value)]
    scale = figure_style.curve_scale(axes, values, metric)
    axes.set_ylabel(figure_style.plain(f"{metric.title}{scale}"))
    axes.grid(alpha=0.3)


# A critical batch size is drawn up to this factor beyond the batch sizes of the runs.
_FAR = 16


def _critical_batches(
    axes: Any, critical: Sequence[CriticalBatch], batches: Sequence[int], styles: dict[str | None, dict[str, Any]]
) -> None:
    low, high = min(batches) / _FAR, max(batches) * _FAR
    inside = [found for found in critical if low <= found.value <= high]
    for found in critical:
        colour = styles[found.name]["color"]
        label = f"critical batch: {found.shown}" + ("" if found in inside else ", outside the axis")
        # An empty line, for the legend.
        axes.plot([], [], color=colour, linestyle="-.", linewidth=1.2, label=figure_style.plain(label))
        if found in inside:
            axes.axvline(found.value, color=colour, linestyle="-.", linewidth=1.2)
            axes.axvspan(max(found.low, low), min(found.high, high), color=colour, alpha=0.08, linewidth=0)
    if inside:
        values = [*batches, *(found.value for found in inside)]
        axes.set_xlim(min(values) / 1.5, max(values) * 1.5)


def _mark_outside(
    axes: Any, batch: float, value: float, limits: tuple[float, float], rank: int, metric: Metric, colour: str
) -> None:
    low, high = limits
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
