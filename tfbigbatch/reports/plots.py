"""The plots of a study: final metric and steps to the target against batch size, trials, curves."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tfbigbatch.reports import figure_style
from tfbigbatch.reports.figure_style import plain
from tfbigbatch.reports.summary import CriticalBatch, Numbers

if TYPE_CHECKING:
    from tfbigbatch.reports.collect import Row
    from tfbigbatch.runs.metric import Metric

# A critical batch size is drawn up to this factor beyond the batch sizes of the runs.
_FAR = 16


def against_batch(
    path: str, summary: Sequence[Numbers], metric: Metric, title: str, baseline: str | None = None
) -> None:
    """The final metric against batch size: a line for each name, s.d. as error bars, the baseline as a band."""
    shown = [row for row in summary if row["mean"] is not None]
    reference = next((row for row in shown if row["name"] == baseline), None)
    styles = figure_style.styles(summary, baseline)
    with figure_style.figure(path, title, len(shown)) as (_, [axes]):
        if reference is not None:
            mean, spread = reference["mean"], reference["standard_deviation"] or 0
            axes.axhspan(mean - spread, mean + spread, color="black", alpha=0.12, lw=0)
            label = f"{reference['name']} at {reference['batch_size']:,}: {metric.shown(mean)}"
            axes.axhline(mean, color="black", linewidth=1.2, linestyle="--", label=plain(label))
        lines = figure_style.lines(shown, baseline if reference is not None else None)
        for name, rows in lines.items():
            batches, means = [row["batch_size"] for row in rows], [row["mean"] for row in rows]
            bars = [row["standard_deviation"] or 0 for row in rows]
            axes.errorbar(batches, means, bars, label=plain(name), capsize=2.5, **styles[name])
        figure_style.batch_axis(axes, [row["batch_size"] for rows in lines.values() for row in rows])
        scale = figure_style.value_scale(axes, [row["mean"] for row in shown], metric)
        axes.set_ylabel(plain(f"{metric.title} at the end{scale}"))
        figure_style.legend_beside(axes)


def curves_by_batch(path: str, rows: Sequence[Row], metric: Metric, title: str, baseline: str | None = None) -> None:
    """The metric against steps: the mean over each row's seeds, with the range shaded; runs in progress included.

    A panel for each batch size, and a line at the baseline's final metric.
    """
    reference = next((row for row in rows if row.name == baseline), None)
    others = [row for row in rows if row is not reference] or rows
    drawn = {id(row): _mean_curve(row, metric) for row in rows}
    styles = figure_style.styles([{"name": row.name} for row in rows], baseline)
    found = [curve for curve in drawn.values() if curve.steps]
    # With the whole of all curves, on which their ends can still be told apart.
    values = [value for curve in found for value in (*curve.least, *curve.most) if math.isfinite(value)]
    batches = sorted({row.batch_size for row in others})
    with figure_style.figure(path, title, len(found), panels=len(batches)) as (_, axes):
        for panel, batch in zip(axes, batches):
            if reference is not None and drawn[id(reference)].steps:
                end = drawn[id(reference)].mean[-1]
                label = f"{baseline} at {reference.batch_size:,}  {metric.shown(end)}"
                panel.axhline(end, color="black", linewidth=1.2, linestyle="--", label=plain(label))
            for row in others:
                if row.batch_size == batch:
                    _curve(panel, drawn[id(row)], row.name, metric, styles[row.name])
            panel.set_title(f"batch {batch:,}", fontsize=10)
            panel.set_xlim(left=0)
            panel.set_xlabel("steps")
            panel.set_ylabel(plain(f"{metric.title}{figure_style.value_scale(panel, values, metric)}"))
            panel.grid(alpha=0.3)
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
    with figure_style.figure(path, title, len(found), panels=len(lines)) as (_, axes):
        for panel, (batch, methods) in zip(axes, sorted(lines.items())):
            for name, points in methods.items():
                if points:
                    rates, means = zip(*sorted(points))
                    label = plain(f"{name}  {metric.shown(metric.best(means))}")
                    panel.plot(rates, means, label=label, **styles[name])
            values = [value for points in methods.values() for _, value in points]
            panel.set_xscale("log")
            panel.set_title(f"batch {batch:,}", fontsize=10)
            panel.set_xlabel("peak learning rate (log scale)")
            panel.set_ylabel(plain(f"{metric.title} at the end{figure_style.value_scale(panel, values, metric)}"))
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
    reference = next((row for row in shown if row["name"] == baseline), None)
    if reference is None:
        reference = min(shown, key=lambda row: (row["batch_size"], row["updates_to_target"]), default=None)
    styles = figure_style.styles(summary, baseline)
    batches = sorted({row["batch_size"] for row in summary})
    with figure_style.figure(path, title, len(shown)) as (_, [axes]):
        if reference is not None:
            ideal = [reference["updates_to_target"] * reference["batch_size"] / batch for batch in batches]
            axes.plot(batches, ideal, color="gray", linestyle=":", label="ideal: 1 / batch")
        lines = figure_style.lines(shown, None)
        for name in dict.fromkeys(row["name"] for row in summary if row["mean"] is not None or row in shown):
            rows = lines.get(name, [])
            label = plain(name if rows else f"{name} (never)")
            values = [row["updates_to_target"] for row in rows]
            axes.plot([row["batch_size"] for row in rows], values, label=label, **styles[name])
        figure_style.batch_axis(axes, batches)
        _critical_batches(axes, critical, batches, styles)
        if shown:  # A log axis needs values.
            axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_ylabel(plain(f"steps to {metric.shown_target(target)} {metric.title} (log scale)"))
        figure_style.legend_beside(axes)


class _Curve(NamedTuple):
    steps: list[int]
    mean: list[float]
    least: list[float]
    most: list[float]


def _mean_curve(row: Row, metric: Metric) -> _Curve:
    """The mean and the range over the seeds with evaluations, at the steps that all of them reached."""
    found = [curve for curve in (run.curve(metric) for run in row.runs) if curve]
    steps = sorted(set.intersection(*map(set, found))) if found else []
    values = [[curve[step] for curve in found] for step in steps]
    return _Curve(steps, [statistics.fmean(v) for v in values], [min(v) for v in values], [max(v) for v in values])


def _curve(axes: Any, curve: _Curve, label: str, metric: Metric, style: dict[str, Any]) -> None:
    if curve.steps:
        colour = style["color"]
        label = plain(f"{label}  {metric.shown(curve.mean[-1])}")
        axes.plot(curve.steps, curve.mean, color=colour, linestyle=style["linestyle"], linewidth=1.6, label=label)
        axes.fill_between(curve.steps, curve.least, curve.most, color=colour, alpha=0.15, linewidth=0)


def _critical_batches(
    axes: Any, critical: Sequence[CriticalBatch], batches: Sequence[int], styles: dict[str | None, dict[str, Any]]
) -> None:
    low, high = min(batches) / _FAR, max(batches) * _FAR
    inside = [found for found in critical if low <= found.value <= high]
    for found in critical:
        colour = styles[found.name]["color"]
        label = f"critical batch: {found.shown}" + ("" if found in inside else ", outside the axis")
        # An empty line, for the legend.
        axes.plot([], [], color=colour, linestyle="-.", linewidth=1.2, label=plain(label))
        if found in inside:
            axes.axvline(found.value, color=colour, linestyle="-.", linewidth=1.2)
            axes.axvspan(max(found.low, low), min(found.high, high), color=colour, alpha=0.08, linewidth=0)
    if inside:
        values = [*batches, *(found.value for found in inside)]
        axes.set_xlim(min(values) / 1.5, max(values) * 1.5)
