"""The loss between where a run began and where it ended, and around its end, as pictures."""

import os

from tfbigbatch.errors import InputError
from tfbigbatch.instruments.event_log import log_of
from tfbigbatch.instruments.instrument import innermost
from tfbigbatch.instruments.loss_surface import LINE, check_points, losses_along, losses_around
from tfbigbatch.instruments.probe.micro_batches import micro_batches_of, parts_of
from tfbigbatch.instruments.surface_plots import check_matplotlib, line_plot, surface_plot


class InterpolationPlotMixin:
    """At the end of `fit`, draws the loss on a probe along the line from one set of weights to another.

    Goodfellow et al. 2015 (arXiv:1412.6544). Where `surface_points` is given, also on a plane around
    the end, along two random filter-normalised directions (Li et al. 2018, arXiv:1712.09913). It
    costs a forward pass over the probe for each position: those of the line, and surface_points^2.

    Args:
      probe: fixed examples: a tuple (x, y) or (x, y, weight) of arrays, or an iterable of equal
        micro-batches (see `instruments.probe`).
      folder: where interpolation.png and surface.png go; made where it does not exist.
      start: where the line begins: a list as `model.get_weights()` gives it, or the path of a file of weights; None,
        the weights at the beginning of the first `fit`.
      end: likewise; None, the weights at the end of `fit`. Of the surface it is the middle.
      micro_batches: what a tuple is cut in.
      positions: on the line; 0 is the start, 1 the end.
      surface_points: along each axis, odd; 0 for no surface.
      surface_reach: the plane goes so far to each side, in norms of the weights' filters.
      training: bool, whether the probe runs in training mode; None is False, unless the model has batch normalisation.
      seed: of the directions.
      log: None; a folder for TensorBoard, for the same pictures; or an object as `EventLog`.

    Attributes:
      line: (positions, losses) of the last drawing.
      surface: (positions, losses [points, points]) of the last drawing; None without.

    Raises:
      ValueError: an argument is out of range, or matplotlib is not installed; at the beginning of `fit`,
        no start is given and the model has no weights yet; at its end, a set of weights is of another model.
    """

    # tf_keras then hands over tensors, which nobody here waits for.
    _supports_tf_logs = True

    def __init__(
        self,
        *,
        probe,
        folder,
        start=None,
        end=None,
        micro_batches=8,
        positions=LINE,
        surface_points=0,
        surface_reach=1.0,
        training=None,
        seed=0,
        log=None,
    ):
        super().__init__()
        # Before the run, not at its end.
        check_matplotlib()
        if surface_points:
            check_points(surface_points)
        self.line = self.surface = None
        self._probe = parts_of(micro_batches_of(probe, micro_batches))
        self._folder = os.fspath(folder)
        self._start = start
        self._end = end
        self._positions = positions
        self._surface = {"points": surface_points, "reach": surface_reach, "seed": seed}
        self._training = training
        self._log = log_of(log)

    def on_train_begin(self, logs=None):
        if self._start is None:
            self._start = _weights(self.model)

    def on_train_end(self, logs=None):
        self.draw()

    def draw(self):
        """Measures and draws now."""
        options = {"probe": self._probe, "training": self._training}
        losses = losses_along(self.model, self._start, self._end, positions=self._positions, **options)
        self.line = (list(self._positions), losses)
        pictures = {"interpolation": line_plot(*self.line)}
        if self._surface["points"]:
            self.surface = losses_around(self.model, self._end, **self._surface, **options)
            pictures["surface"] = surface_plot(*self.surface)
        if not self.model.distribute_strategy.extended.should_save_summary:
            return
        os.makedirs(self._folder, exist_ok=True)
        step = int(innermost(self.model.optimizer).iterations.numpy())
        for name, png in pictures.items():
            with open(os.path.join(self._folder, f"{name}.png"), "wb") as file:
                file.write(png)
            if self._log is not None:
                self._log.image(step, f"loss_surface/{name}", png)


def _weights(model):
    try:
        weights = model.get_weights()
    except ValueError:  # tf_keras: not built yet.
        weights = []
    if not weights:
        raise InputError(
            "InterpolationPlot: the model has no weights before its first batch. Begin it with an Input layer, or give "
            "start=model.get_weights()."
        )
    return weights
