"""Base of the callbacks: a count of optimizer steps across calls of `fit` and resumes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import tf_keras

Logs = Mapping[str, Any] | None

_ROUNDING = 1e-9


class StepCallback(tf_keras.callbacks.Callback):
    """A callback that knows `self.step`, the optimizer steps done, across calls of `fit` and resumes."""

    # Keras then passes tensors, and only a callback that reads them waits for the device.
    _supports_tf_logs = True

    step = 0
    _epoch_start = 0

    def on_train_begin(self, logs: Logs = None) -> None:
        self._epoch_start = self.step = steps_done(self.model.optimizer)

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self._epoch_start = self.step

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        before, self.step = self.step, self._epoch_start + batch + 1
        self.on_steps(before, self.step, logs)

    def on_steps(self, before: int, step: int, logs: Logs) -> None:
        """Called after the steps (before, step]: one, or steps_per_execution of them."""


def crosses(before: int, step: int, every: float, offset: float = 0) -> bool:
    """True if a multiple of `every` lies in (before + offset, step + offset]; False where `every` is 0."""
    if every <= 0:
        return False
    # An interval of a batch ramp is a fraction of steps: its multiples must not be missed by rounding.
    return math.floor((step + offset) / every + _ROUNDING) > math.floor((before + offset) / every + _ROUNDING)


def steps_done(optimizer: tf_keras.optimizers.Optimizer) -> int:
    """The number of steps that an optimizer has made, under any strategy."""
    return int(optimizer.iterations.numpy())
