"""Plots of single runs: all scalars against steps, and the trust ratio of each layer as a heat map."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfbigbatch.reports import figure_style

if TYPE_CHECKING:
    from tfbigbatch.reports.collect import Row, Run
    from tfbigbatch.runs.scalars import Scalars

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
    panels, styles = panels_of(found), figure_style.styles([{"name": _label(row)} for row in rows], None)
    lasts = [each.last_step for each in found if each.last_step]
    lines = -(-max(1, len(panels)) // 2)
    # The legend is below the panels, in one column where names are long.
    columns = 1 if max(map(len, map(_label, rows)), default=0) > 55 else 2
    size = (13, 3.6 * lines + 0.21 * -(-len(rows) // columns) + 0.4)
    with figure_style.figure(path, title, len(panels), panels=max(2, len(panels)), size=size) as (figure, axes):
        for panel, (split, name, label) in zip(axes.flat, panels):
            drawn = [
                (row, style, series)
                for row, style in ((row, _style(styles, row)) for row in rows)
                for series in (scalars(run).series(split, name) for run in row.runs)
                if series
            ]
            for _, style, series in drawn:
                panel.plot(list(series), list(series.values()), **style, markevery=_marks(len(series)))
            _axes(panel, [value for *_, series in drawn for value in series.values()], lasts, name, label)
        for panel in axes.flat[len(panels) :]:
            panel.set_axis_off()
        if panels:
            handles = [
                axes.flat[0].plot([], [], label=figure_style.plain(_label(row)), **_style(styles, row))[0]
                for row in rows
            ]
            figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)


def _label(row: Row) -> str:
    return f"{row.name} (batch {row.batch_size:,})"


def _style(styles: Mapping[str | None, dict[str, Any]], row: Row) -> dict[str, Any]:
    return {**styles[_label(row)], "markersize": 3.5, "linewidth": 1.2}


def _marks(count: int) -> int:
    """The distance of markers in points, for about twelve on a line."""
    return max(1, count // 12)


def _axes(panel: Any, values: Sequence[float], lasts: Sequence[int], name: str, label: str) -> None:
    finite = [value for value in values if math.isfinite(value)]
    if finite and min(finite) > 0.0 and max(finite) > figure_style.WIDE * min(finite):
        panel.set_yscale("log")
        label += " (log scale)"
        panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    elif "accuracy" in name:
        panel.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.4g}%")
    if max(lasts, default=0) > 8 * min(lasts, default=0):
        panel.set_xscale("log")
        panel.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        panel.set_xlabel("steps (log scale)")
    else:
        panel.set_xlabel("steps")
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
    with figure_style.figure(path, title, len(names), size=size) as (figure, axes):
        from matplotlib.colors import LogNorm
        from matplotlib.ticker import LogLocator, NullLocator

        edges = _edges(steps)
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


def _edges(steps: Sequence[int]) -> list[float]:
    """The edges of the cells of each measurement: half-way to its neighbours."""
    middles = [(one + other) / 2 for one, other in zip(steps, steps[1:])]
    first = 2 * steps[0] - middles[0] if middles else steps[0] - 0.5
    last = 2 * steps[-1] - middles[-1] if middles else steps[-1] + 0.5
    return [first, *middles, last]
