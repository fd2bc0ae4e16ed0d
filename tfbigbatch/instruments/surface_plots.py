"""Pictures of a loss along a line and on a plane, as PNG."""

import importlib.util
import io

import numpy as np

from tfbigbatch.errors import missing_extra


def check_matplotlib():
    """Raises ValueError where matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise missing_extra("matplotlib", "plot")


def line_plot(positions, losses, title="loss between two sets of weights"):
    """The PNG, as bytes, of what `losses_along` gave."""
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
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.3)
    return _png(figure)


def surface_plot(positions, losses, title="loss around the weights, filter-normalised"):
    """The PNG, as bytes, of what `losses_around` gave: contours, at equal ratios where the loss is positive."""
    figure, axes = _figure(5.6, 4.6)
    shown = np.ma.masked_invalid(losses)
    label = "loss on the probe"
    if shown.min() > 0.0:
        shown, label = np.ma.log10(shown), "log10 of the loss on the probe"
    # A surface without relief has no contours.
    if shown.max() > shown.min():
        filled = axes.contourf(positions, positions, shown, levels=20, cmap="viridis")
        axes.contour(positions, positions, shown, levels=20, colors="black", linewidths=0.3)
        figure.colorbar(filled, ax=axes, label=label)
    axes.plot([0.0], [0.0], marker="x", color="white", markersize=8)
    axes.set_xlabel("first direction")
    axes.set_ylabel("second direction")
    axes.set_title(title, fontsize=10)
    return _png(figure)


def _figure(width, height):
    check_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Not through pyplot: its figures and backend are the user's.
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def _png(figure):
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=120)
    return file.getvalue()
