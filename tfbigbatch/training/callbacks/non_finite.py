"""Stops a run when a metric is NaN or infinite."""

from __future__ import annotations

import math

from tfbigbatch.errors import DivergedError
from tfbigbatch.training.callbacks.base import Logs, StepCallback, crosses


class StopOnNonFinite(StepCallback):
    """Raises DivergedError when a metric is NaN or infinite, with its name and the window of steps.

    Put it before the callback that saves checkpoints.

    Args:
      every: steps between two readings of the metrics.
    """

    def __init__(self, every: float) -> None:
        super().__init__()
        self._every = every
        self._finite_at = 0

    def on_train_begin(self, logs: Logs = None) -> None:
        super().on_train_begin(logs)
        self._finite_at = self.step

    def on_steps(self, before: int, step: int, logs: Logs) -> None:
        if crosses(before, step, self._every):
            self._check(logs)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self._check(logs)

    def _check(self, logs: Logs) -> None:
        for name, value in (logs or {}).items():
            if not math.isfinite(float(value)):
                raise DivergedError(
                    f"{name} became {float(value)} between step {self._finite_at} and step {self.step}."
                )
        self._finite_at = self.step
