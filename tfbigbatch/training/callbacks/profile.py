"""Profiles a window of steps."""

from __future__ import annotations

import tensorflow as tf

from tfbigbatch.training.callbacks.base import Logs, StepCallback


class Profile(StepCallback):
    """Records TensorFlow's profile of the steps (first, last] for TensorBoard's profile page.

    Args:
      directory: where the profile is written.
      first, last: in steps; widened to whole executions of `steps_per_execution`.
      steps_per_execution: steps in one call of the device's loop.
    """

    def __init__(self, directory: str, first: int, last: int, steps_per_execution: int = 1) -> None:
        super().__init__()
        self._directory = directory
        self._first = first
        self._last = last
        self._steps_per_execution = steps_per_execution
        self._running = False

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        start = self._epoch_start + batch
        if not self._running and start < self._last and start + self._steps_per_execution > self._first:
            tf.profiler.experimental.start(self._directory)
            self._running = True

    def on_steps(self, before: int, step: int, logs: Logs) -> None:
        if self._running and step >= self._last:
            self._stop()

    def on_train_end(self, logs: Logs = None) -> None:
        if self._running:
            self._stop()

    def _stop(self) -> None:
        tf.profiler.experimental.stop()
        self._running = False
