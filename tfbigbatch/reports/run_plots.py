"""Plots of single runs: all scalars against steps, and the trust ratio of each layer as a heat map."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfbigbatch.reports import figure_style

if TYPE_CHECKING:
    from tfbigbatch.reports.collect import Row, Run
    from tfbigbatch.runs.metrics_log import Scalars

Series = Mapping[int, float]
"""A scalar by step."""

# The instruments' scalars that describe a whole run; those of layers are in the heat map.
_INSTRUMENTS = {
    "noise_scale/critical_batch_size": "critical batch (examples)",
    "sharpness/eigenvalue_1": "largest Hessian eigenvalue",
    "sharpness/trace": "trace of the Hessian",
    "sharpness/rise": "rise of the loss at the radius",
}
_UNITS = {
    "examples_per_second": "examples per second",
    "tokens_per_second": "tokens per second",
    "learning_rate": "learning rate",
}
# Only another unit of the steps.
_LEFT_OUT = ("epoch",)
_SPLITS = {"train": "training", "eval": "evaluation"}
_TRUST_RATIOS = "layers/trust_ratio/"
# More names than these do not fit on the axis: some are left out.
_MOST_NAMES = 60


def panels_of(scalars: Sequence[Scalars]) -> list[tuple[str, str, str]]:
    """The panels for the scalars of all runs, as (split, name, label of the y-axis)."""
    found = {(split, name): None for split in ("eval", "train") for each in scalars for name in each.names(split)}
    panels = []
    for split, name in found:
        if "/" in name:
            if name in _INSTRUMENTS:
                panels.append((split, name, _INSTRUMENTS[name]))
        elif name not in _LEFT_OUT:
            panels.append((split, name, _UNITS.get(name) or f"{name}, {_SPLITS.get(split, split)}"))
    return panels


def run_curves(path: str, rows: Sequence[Row], scalars: Callable[[Run], Scalars], title: str) -> None:
    """A PNG of all scalars of all runs: a panel for each scalar, a line for each run; runs in progress included."""
    found = [scalars(run) for row in rows for run in row.runs]
    labels = {id(row): f"{row.name} (batch {row.batch_size:,})" for row in rows}
    panels, styles = panels_of(found), figure_style.styles([{"name": label} for label in labels.values()], None)
    # The legend is below the panels, in one column where names are long.
    columns = 1 if max(map(len, labels.values()), default=0) > 55 else 2
    size = (13, 3.6 * -(-max(1, len(panels)) // 2) + 0.21 * -(-len(rows) // columns) + 0.4)
    with figure_style.figure(path, title, len(panels), panels=len(panels), size=size) as (figure, axes):
        for panel, (split, name, label) in zip(axes, panels):
            for row in rows:
                for series in (scalars(run).series(split, name) for run in row.runs):
                    if series:
                        # About twelve markers on a line.
                        style = {**styles[labels[id(row)]], "markersize": 3.5, "markevery": max(1, len(series) // 12)}
                        panel.plot(list(series), list(series.values()), **style)
            _axes(panel, [each.last_step for each in found if each.last_step], name, label)
        for row in rows if panels else []:
            axes[0].plot([], [], label=figure_style.plain(labels[id(row)]), **styles[labels[id(row)]])
        if panels:
            figure.legend(loc="outside lower center", ncols=columns, frameon=False, fontsize=8)


def _axes(panel: Any, lasts: Sequence[int], name: str, label: str) -> None:
    values = [value for line in panel.lines for value in line.get_ydata() if math.isfinite(value)]
    if values and min(values) > 0.0 and max(values) > figure_style.WIDE * min(values):
        panel.set_yscale("log")
        label += " (log scale)"
        panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    elif "accuracy" in name:
        panel.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.4g}%")
    if max(lasts, default=0) > 8 * min(lasts, default=0):
        panel.set_xscale("log")
        panel.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    panel.set_xlabel(f"steps{' (log scale)' if panel.get_xscale() == 'log' else ''}")
    panel.set_ylabel(figure_style.plain(label))
    panel.grid(alpha=0.3)


def trust_ratios(scalars: Scalars) -> dict[str, dict[int, float]]:
    """The trust ratios of a run by variable and step; empty where none were measured."""
    return scalars.below("train", _TRUST_RATIOS)


def limits(maps: Sequence[Mapping[str, Series]]) -> tuple[float, float]:
    """The least and the largest positive ratio of several runs' `trust_ratios`, for a common colour scale."""
    ratios = [ratio for layers in maps for series in layers.values() for ratio in series.values() if ratio > 0.0]
    ratios = [ratio for ratio in ratios if math.isfinite(ratio)] or [1.0]
    # The scale must not be empty where there is one value.
    return min(ratios), max(max(ratios), 1.01 * min(ratios))


def trust_map(path: str, layers: Mapping[str, Series], title: str, least: float, largest: float) -> None:
    """A PNG of a run's trust ratios: layers by steps.

    A cell is white where the ratio is 0, not finite, or was not measured.

    Args:
      path: of the PNG.
      layers: from `trust_ratios`.
      title: of the figure.
      least, largest: ends of the colour scale, which is logarithmic.
    """
    steps = sorted({step for series in layers.values() for step in series})
    names = list(layers)
    ratios = np.array([[_positive(layers[name].get(step)) for step in steps] for name in names])
    size = (9, 1.6 + min(0.24 * len(names), 14))
    with figure_style.figure(path, title, len(names), size=size) as (figure, [axes]):
        from matplotlib.colors import LogNorm
        from matplotlib.ticker import LogLocator, NullLocator

        # A cell is as wide as the way to the next measurement, the last one as the way from the one before.
        edges = [*steps, 2 * steps[-1] - steps[-2] if len(steps) > 1 else steps[-1] + 1]
        drawn = axes.pcolormesh(
            edges, np.arange(len(names) + 1), ratios, norm=LogNorm(least, largest), cmap="cividis", rasterized=True
        )
        every = -(-len(names) // _MOST_NAMES)
        shown = range(0, len(names), every)
        axes.set_yticks([at + 0.5 for at in shown], [figure_style.plain(names[at]) for at in shown], fontsize=7)
        axes.invert_yaxis()
        axes.set_xlabel("steps")
        axes.set_ylabel("variable" if every == 1 else f"variable (every {every}th named)")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        bar = figure.colorbar(drawn, ax=axes, label="trust ratio (log scale)")
        # Few powers of ten lie within a narrow scale, and all digits of each would overlap.
        bar.ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if largest < 100 * least else (1.0,)))
        bar.ax.yaxis.set_minor_locator(NullLocator())
        bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:.3g}")


def _positive(ratio: float | None) -> float:
    return ratio if ratio is not None and 0.0 < ratio < math.inf else math.nan
