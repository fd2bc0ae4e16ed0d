"""The plots of a report: against batch size, against steps, and trust ratios."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfbigbatch.reports import figure_style
from tfbigbatch.reports.figure_style import plain
from tfbigbatch.reports.table import Numbers

if TYPE_CHECKING:
    from tfbigbatch.reports.collect import Row
    from tfbigbatch.run_directory.metric import Metric
    from tfbigbatch.run_directory.metrics_log import Scalars

# The instruments' scalars that describe a whole run; those of layers are in the heat map.
_INSTRUMENTS = {
    "noise_scale/critical_batch_size": "critical batch (examples)",
    "sharpness/eigenvalue_1": "largest Hessian eigenvalue",
    "sharpness/trace": "trace of the Hessian",
    "sharpness/rise": "rise of the loss at the radius",
}
_SPLITS = {"train": "training", "eval": "evaluation"}
# More names than these do not fit on the axis: some are left out.
_MOST_NAMES = 60


def against_batch(
    path: str,
    summary: Sequence[Numbers],
    metric: Metric,
    title: str,
    baseline: str | None = None,
    target: float | None = None,
) -> None:
    """The final metric against batch size, or the steps to a target: a line for each name.

    Bars are standard deviations, and the baseline's metric is a band. The ideal line of the steps, 1 / batch, goes
    through the baseline; without one, through the smallest batch that reaches the target.
    """
    value = "mean" if target is None else "updates_to_target"
    shown = [row for row in summary if row[value] is not None]
    reference = next((row for row in shown if row["name"] == baseline), None)
    styles = figure_style.styles([row["name"] for row in summary], baseline)
    batches = [row["batch_size"] for row in shown]
    with figure_style.figure(path, title, len(shown)) as (_, [axes]):
        if target is None:
            if reference is not None:
                spread = reference["standard_deviation"] or 0
                axes.axhspan(reference["mean"] - spread, reference["mean"] + spread, color="black", alpha=0.12, lw=0)
                _reference(axes, reference["name"], reference["batch_size"], reference["mean"], metric)
            lines = figure_style.lines(shown, baseline if reference is not None else None)
            scale = figure_style.value_scale(axes, [row["mean"] for row in shown], metric)
            axes.set_ylabel(plain(f"{metric.title} at the end{scale}"))
        else:
            lines = figure_style.lines(shown, None)
            first = reference or min(shown, key=lambda row: (row["batch_size"], row[value]), default=None)
            if first is not None:  # A log axis needs values.
                ideal = [first[value] * first["batch_size"] / batch for batch in sorted(set(batches))]
                axes.plot(sorted(set(batches)), ideal, color="gray", linestyle=":", label="ideal: 1 / batch")
                axes.set_yscale("log", base=2)
            axes.yaxis.set_major_formatter(lambda steps, _: f"{steps:,.0f}")
            axes.set_ylabel(plain(f"steps to {metric.shown_target(target)} {metric.title} (log scale)"))
        for name, rows in lines.items():
            bars = [row["standard_deviation"] or 0 for row in rows] if target is None else None
            points = [row["batch_size"] for row in rows], [row[value] for row in rows]
            axes.errorbar(*points, bars, label=plain(name), capsize=2.5, **styles[name])
        figure_style.batch_axis(axes, [row["batch_size"] for rows in lines.values() for row in rows])
        figure_style.legend_beside(axes)


def curves_by_batch(path: str, rows: Sequence[Row], metric: Metric, title: str, baseline: str | None = None) -> None:
    """The metric against steps: the mean over each row's seeds, with the range shaded; runs in progress included.

    A panel for each batch size, and a line at the baseline's final metric.
    """
    reference = next((row for row in rows if row.name == baseline), None)
    others = [row for row in rows if row is not reference] or rows
    curves = {id(row): _seeds_by_step(row, metric) for row in rows}
    styles = figure_style.styles([row.name for row in rows], baseline)
    values = [value for curve in curves.values() for seeds in curve.values() for value in seeds if math.isfinite(value)]
    batches = sorted({row.batch_size for row in others})
    with figure_style.figure(path, title, sum(map(bool, curves.values())), panels=len(batches)) as (_, axes):
        for panel, batch in zip(axes, batches):
            if reference is not None and curves[id(reference)]:
                end = statistics.fmean([*curves[id(reference)].values()][-1])
                _reference(panel, reference.name, reference.batch_size, end, metric)
            for row in others:
                curve = curves[id(row)]
                if row.batch_size != batch or not curve:
                    continue
                means = [statistics.fmean(seeds) for seeds in curve.values()]
                label = plain(f"{row.name}  {metric.shown(means[-1])}")
                panel.plot(list(curve), means, label=label, **{**styles[row.name], "marker": ""})
                least, most = ([end(seeds) for seeds in curve.values()] for end in (min, max))
                panel.fill_between(list(curve), least, most, color=styles[row.name]["color"], alpha=0.15, linewidth=0)
            panel.set_xlim(left=0)
            panel.set_title(f"batch {batch:,}", fontsize=10)
            panel.set_xlabel("steps")
            panel.set_ylabel(plain(f"{metric.title}{figure_style.value_scale(panel, values, metric)}"))
            panel.grid(alpha=0.3)
            figure_style.legend_beside(panel)


def panels_of(scalars: Sequence[Scalars]) -> list[tuple[str, str, str]]:
    """The panels for the scalars of all runs, as (split, name, label of the y-axis)."""
    found = dict.fromkeys(
        (split, name) for split in ("eval", "train") for each in scalars for name in each.names(split)
    )
    return [
        (split, name, _INSTRUMENTS.get(name) or f"{name}, {_SPLITS[split]}")
        for split, name in found
        # An epoch is only another unit of the steps.
        if name in _INSTRUMENTS or ("/" not in name and name != "epoch")
    ]


def run_curves(path: str, rows: Sequence[Row], title: str) -> None:
    """A PNG of all scalars of all runs: a panel for each scalar, a line for each run; runs in progress included."""
    labels = {id(row): f"{row.name} (batch {row.batch_size:,})" for row in rows}
    panels = panels_of([run.scalars for row in rows for run in row.runs])
    styles = figure_style.styles(labels.values())
    with figure_style.figure(path, title, len(panels), panels=len(panels)) as (_, axes):
        for panel, (split, name, label) in zip(axes, panels):
            values: list[float] = []
            for row in rows:
                drawn = [series for series in (run.scalars.series(split, name) for run in row.runs) if series]
                for number, series in enumerate(drawn):
                    # About twelve markers on a line.
                    style = {**styles[labels[id(row)]], "markersize": 3.5, "markevery": max(1, len(series) // 12)}
                    legend = None if number else plain(labels[id(row)])
                    panel.plot(list(series), list(series.values()), label=legend, **style)
                    values += [value for value in series.values() if math.isfinite(value)]
            if values and min(values) > 0.0 and max(values) > figure_style.WIDE * min(values):
                panel.set_yscale("log")
                label += " (log scale)"
            panel.set_xlabel("steps")
            panel.set_ylabel(plain(label))
            panel.grid(alpha=0.3)
        if panels:
            figure_style.legend_beside(axes[0])


def trust_map(path: str, layers: Mapping[str, Mapping[int, float]], title: str) -> None:
    """A PNG of a run's trust ratios, of each variable by step: variables by steps, on a logarithmic colour scale.

    A cell is white where the ratio is 0, not finite, or was not measured.
    """
    steps, names = sorted({step for series in layers.values() for step in series}), list(layers)
    found = np.array([[layers[name].get(step, math.nan) for step in steps] for name in names])
    ratios = np.where(np.isfinite(found) & (found > 0.0), found, math.nan)
    size = (9, 1.6 + min(0.24 * len(names), 14))
    with figure_style.figure(path, title, len(names), size=size) as (figure, [axes]):
        from matplotlib.colors import LogNorm

        # A cell is as wide as the way to the next measurement, the last one as the way from the one before.
        edges = [*steps, 2 * steps[-1] - steps[-2] if len(steps) > 1 else steps[-1] + 1]
        known = ratios[np.isfinite(ratios)] if np.isfinite(ratios).any() else np.ones(1)
        # The scale must not be empty where there is one value.
        least, most = float(known.min()), float(max(known.max(), 1.01 * known.min()))
        norm = LogNorm(least, most)
        drawn = axes.pcolormesh(edges, np.arange(len(names) + 1), ratios, norm=norm, cmap="cividis", rasterized=True)
        every = -(-len(names) // _MOST_NAMES)
        shown = range(0, len(names), every)
        axes.set_yticks([at + 0.5 for at in shown], [plain(names[at]) for at in shown], fontsize=7)
        axes.invert_yaxis()
        axes.set_xlabel("steps")
        axes.set_ylabel("variable" if every == 1 else f"variable (every {every}th named)")
        bar = figure.colorbar(drawn, ax=axes, label="trust ratio (log scale)", format="%.2g")
        # Few powers of ten lie within a narrow scale.
        bar.set_ticks(np.geomspace(least, most, 5))
        bar.minorticks_off()


def _seeds_by_step(row: Row, metric: Metric) -> dict[int, list[float]]:
    """The metric of the seeds with evaluations, at the steps that all of them reached."""
    found = [curve for curve in (run.curve(metric) for run in row.runs) if curve]
    steps = sorted(set.intersection(*map(set, found))) if found else []
    return {step: [curve[step] for curve in found] for step in steps}


def _reference(axes: Any, name: str, batch_size: int, value: float, metric: Metric) -> None:
    """A dashed line at the baseline's metric."""
    label = plain(f"{name} at {batch_size:,}: {metric.shown(value)}")
    axes.axhline(value, color="black", linewidth=1.2, linestyle="--", label=label)
