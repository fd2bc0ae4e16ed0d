"""The heat map of one run's trust ratios: its layers over its updates."""

import math

import numpy as np

from tfbigbatch.reports import figure_style

PREFIX = "layers/trust_ratio/"
# So many names fit beside each other on the axis; of more, some are written.
_MOST_NAMES = 60


def trust_ratios(scalars):
    """Dictionary of a variable's path to its series, of a run's `Scalars`; empty where none were measured."""
    return scalars.below("train", PREFIX)


def limits(maps):
    """The least and the largest positive ratio of several runs, so that one colour means one ratio in all.

    Args:
      maps: list of what `trust_ratios` gave.
    """
    ratios = [ratio for layers in maps for series in layers.values() for ratio in series.values() if ratio > 0.0]
    ratios = [ratio for ratio in ratios if math.isfinite(ratio)] or [1.0]
    # A map of one value has a colour too.
    return min(ratios), max(max(ratios), 1.01 * min(ratios))


def trust_map(path, layers, title, least, largest):
    """A PNG of it; a field is white where a ratio is 0, not finite, or was not measured.

    Args:
      path: of the PNG.
      layers: what `trust_ratios` gave.
      title: of the figure.
      least, largest: ratios at the ends of the colours, which are logarithmic.
    """
    steps = sorted({step for series in layers.values() for step in series})
    names = list(layers)
    ratios = np.array([[_positive(layers[name].get(step)) for step in steps] for name in names])
    size = (9, 1.6 + min(0.24 * len(names), 14))
    with figure_style.figure(path, title, len(names), size=size) as (figure, axes):
        from matplotlib.colors import LogNorm

        edges = _edges(steps)
        drawn = axes.pcolormesh(
            edges, np.arange(len(names) + 1), ratios, norm=LogNorm(least, largest), cmap="cividis", rasterized=True
        )
        every = -(-len(names) // _MOST_NAMES)
        shown = range(0, len(names), every)
        axes.set_yticks([at + 0.5 for at in shown], [figure_style.plain(names[at]) for at in shown], fontsize=7)
        axes.invert_yaxis()
        axes.set_xlabel("updates")
        axes.set_ylabel("variable" if every == 1 else f"variable (every {every}th named)")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        bar = figure.colorbar(drawn, ax=axes, label="trust ratio (log scale)")
        bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:.3g}")
        # Between powers of ten there is room for names where there are few of those.
        between = largest < 30 * least
        bar.ax.yaxis.set_minor_formatter(lambda value, _: f"{value:.2g}" if between else "")


def _positive(ratio):
    return ratio if ratio is not None and 0.0 < ratio < math.inf else math.nan


def _edges(steps):
    """Where the field of each look begins and ends: half-way to its neighbours."""
    middles = [(one + other) / 2 for one, other in zip(steps, steps[1:])]
    first = 2 * steps[0] - middles[0] if middles else steps[0] - 0.5
    last = 2 * steps[-1] - middles[-1] if middles else steps[-1] + 0.5
    return [first, *middles, last]
