"""Callback that plots the loss between the initial and final weights, and on a plane around the final ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfbigbatch.errors import InputError
from tfbigbatch.instruments.event_log import log_of
from tfbigbatch.instruments.instrument import innermost
from tfbigbatch.instruments.loss_surface import LINE, check_points, losses_along, losses_around
from tfbigbatch.instruments.probe.micro_batches import micro_batches_of, parts_of
from tfbigbatch.instruments.surface_plots import check_matplotlib, line_plot, surface_plot
from tfbigbatch.utils.home import expanded


class InterpolationPlotMixin:
    """At the end of `fit`, draws the loss on a probe along the line from one set of weights to another.

    Goodfellow et al. 2015 (arXiv:1412.6544). With `surface_points`, also on a plane around the end, along two random
    filter-normalised directions (Li et al. 2018, arXiv:1712.09913). Costs a forward pass over the probe for each
    position: those of the line, and surface_points^2.

    Args:
      probe: fixed examples: a tuple (x, y) or (x, y, weight) of arrays, or an iterable of equal
        micro-batches (see `instruments.probe`).
      folder: of interpolation.png and surface.png; made if missing.
      start: weights at position 0: a list from `model.get_weights()` or the path of a weights file; None: the weights
        at the beginning of the first `fit`.
      end: weights at position 1 and in the middle of the surface; None: those at the end of `fit`.
      micro_batches: number of parts that a tuple is cut into.
      positions: on the line; 0 is the start, 1 the end.
      surface_points: along each axis, odd; 0 for no surface.
      surface_reach: half the width of the plane, in norms of the weights' filters.
      training: whether the probe runs in training mode; None: only if the model has batch normalisation.
      seed: of the directions.
      log: None, a folder for TensorBoard, or an object with the methods of `EventLog`, for the same images.

    Attributes:
      line: (positions, losses) of the last plot.
      surface: (positions, losses [points, points]) of the last plot, or None.

    Raises:
      ValueError: an argument is out of range, or matplotlib is not installed; at the beginning of `fit`:
        no start is given and the model has no weights yet; at its end: weights of another model.
    """

    # Lets tf_keras pass tensors, so that it does not wait for the device.
    _supports_tf_logs = True
    # Of Keras' Callback.
    model: Any

    def __init__(
        self,
        *,
        probe: Any,
        folder: str | os.PathLike[str],
        start: Any = None,
        end: Any = None,
        micro_batches: int = 8,
        positions: Sequence[float] = LINE,
        surface_points: int = 0,
        surface_reach: float = 1.0,
        training: bool | None = None,
        seed: int = 0,
        log: Any = None,
    ) -> None:
        super().__init__()
        # Fails before the run, not at its end.
        check_matplotlib()
        if surface_points:
            check_points(surface_points)
        self.line: tuple[list[float], np.ndarray] | None = None
        self.surface: tuple[np.ndarray, np.ndarray] | None = None
        self._probe = parts_of(micro_batches_of(probe, micro_batches))
        self._folder = expanded(folder)
        self._start = start
        self._end = end
        self._positions = positions
        self._surface: dict[str, Any] = {"points": surface_points, "reach": surface_reach, "seed": seed}
        self._training = training
        self._log = log_of(log)

    def on_train_begin(self, logs: Any = None) -> None:
        if self._start is None:
            self._start = _weights(self.model)

    def on_train_end(self, logs: Any = None) -> None:
        self.draw()

    def draw(self) -> None:
        """Measures and plots now."""
        options: dict[str, Any] = {"probe": self._probe, "training": self._training}
        losses = losses_along(self.model, self._start, self._end, positions=self._positions, **options)
        self.line = (list(self._positions), losses)
        images = {"interpolation": line_plot(*self.line)}
        if self._surface["points"]:
            self.surface = losses_around(self.model, self._end, **self._surface, **options)
            images["surface"] = surface_plot(*self.surface)
        if not self.model.distribute_strategy.extended.should_save_summary:
            return
        os.makedirs(self._folder, exist_ok=True)
        step = int(innermost(self.model.optimizer).iterations.numpy())
        for name, png in images.items():
            with open(os.path.join(self._folder, f"{name}.png"), "wb") as file:
                file.write(png)
            if self._log is not None:
                self._log.image(step, f"loss_surface/{name}", png)


def _weights(model: Any) -> list[np.ndarray]:
    try:
        weights = model.get_weights()
    except ValueError:  # tf_keras: not built yet.
        weights = []
    if not weights:
        raise InputError(
            "InterpolationPlot: the model has no weights before its first batch. Start it with an Input layer, or pass "
            "start=model.get_weights()."
        )
    return weights
