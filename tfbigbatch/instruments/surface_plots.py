"""Plots of the loss along a line and on a plane, as PNG."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfbigbatch.errors import missing_extra
from tfbigbatch.utils.plot_text import plain


def check_matplotlib() -> None:
    """Raises ValueError if matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise missing_extra("matplotlib", "plot")


def line_plot(positions: Sequence[float], losses: np.ndarray, title: str = "loss between two sets of weights") -> bytes:
    """Plots the result of `losses_along`; returns the PNG."""
    figure, axes = _figure(6.4, 4.0)
    axes.plot(positions, np.ma.masked_invalid(losses), color="#0072B2", linewidth=1.6)
    for position, label in ((0.0, "start"), (1.0, "end")):
        axes.axvline(position, color="gray", linewidth=1.0, linestyle="--")
        axes.annotate(
            label,
            (position, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(3, -12),
            fontsize=8,
            textcoords="offset points",
            color="gray",
        )
    axes.set_xlabel("position on the line")
    axes.set_ylabel("loss on the probe")
    axes.set_title(plain(title), fontsize=10)
    axes.grid(alpha=0.3)
    return _png(figure)


def surface_plot(
    positions: np.ndarray, losses: np.ndarray, title: str = "loss around the weights, filter-normalised"
) -> bytes:
    """Plots the result of `losses_around` as contours, logarithmic for positive losses; returns the PNG."""
    figure, axes = _figure(5.6, 4.6)
    shown = np.ma.masked_invalid(losses)
    label = "loss on the probe"
    if shown.min() > 0.0:
        shown, label = np.ma.log10(shown), "log10 of the loss on the probe"
    # A constant surface has no contours.
    if shown.max() > shown.min():
        filled = axes.contourf(positions, positions, shown, levels=20, cmap="viridis")
        axes.contour(positions, positions, shown, levels=20, colors="black", linewidths=0.3)
        figure.colorbar(filled, ax=axes, label=label)
    axes.plot([0.0], [0.0], marker="x", color="white", markersize=8)
    axes.set_xlabel("first direction")
    axes.set_ylabel("second direction")
    axes.set_title(plain(title), fontsize=10)
    return _png(figure)


def _figure(width: float, height: float) -> tuple[Any, Any]:
    check_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Without pyplot, which would change the user's figures and backend.
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def _png(figure: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=120)
    return file.getvalue()
