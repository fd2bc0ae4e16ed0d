"""Stops a run whose metrics left the finite numbers."""

import math

from tfbigbatch.errors import DivergedError
from tfbigbatch.training.callbacks.base import StepCallback, crosses


class StopOnNonFinite(StepCallback):
    """Raises DivergedError when a metric is NaN or infinite, with its name and the window of steps.

    Put it before whatever saves checkpoints.

    Args:
      every: how often the metrics are read, in updates.
    """

    def __init__(self, every):
        super().__init__()
        self._every = every
        self._finite_at = 0

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        self._finite_at = self.step

    def on_steps(self, before, step, logs):
        if crosses(before, step, self._every):
            self._check(logs)

    def on_epoch_end(self, epoch, logs=None):
        self._check(logs)

    def _check(self, logs):
        for name, value in (logs or {}).items():
            if not math.isfinite(float(value)):
                raise DivergedError(
                    f"{name} became {float(value)} between step {self._finite_at} and step {self.step}."
                )
        self._finite_at = self.step
