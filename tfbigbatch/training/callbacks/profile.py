"""Profiles of a window of updates."""

import tensorflow as tf

from tfbigbatch.training.callbacks.base import StepCallback


class Profile(StepCallback):
    """Records TensorFlow's profile of the updates (first, last] for TensorBoard's profile page.

    Args:
      directory: where the profile goes.
      first, last: in updates; widened to whole executions of `steps_per_execution`.
      steps_per_execution: updates in one call of the device's loop.
    """

    def __init__(self, directory, first, last, steps_per_execution=1):
        super().__init__()
        self._directory = directory
        self._first = first
        self._last = last
        self._steps_per_execution = steps_per_execution
        self._running = False

    def on_train_batch_begin(self, batch, logs=None):
        start = self._epoch_start + batch
        if not self._running and start < self._last and start + self._steps_per_execution > self._first:
            tf.profiler.experimental.start(self._directory)
            self._running = True

    def on_steps(self, before, step, logs):
        if self._running and step >= self._last:
            self._stop()

    def on_train_end(self, logs=None):
        if self._running:
            self._stop()

    def _stop(self):
        tf.profiler.experimental.stop()
        self._running = False
