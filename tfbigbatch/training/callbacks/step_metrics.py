"""Training metrics and throughput, written once in a window of steps."""

from __future__ import annotations

import time

import numpy as np
import tensorflow as tf
import tf_keras

from tfbigbatch.training.callbacks.base import Logs, StepCallback, crosses
from tfbigbatch.training.metrics_log import MetricsLog


class StepMetrics(StepCallback):
    """Writes training scalars every so many steps: the mean of each metric over the window.

    It resets the model's metrics after each window, so Keras' own epoch logs are of the last
    window only. Also written: learning_rate, epoch and examples_per_second, and for texts
    tokens_per_second.

    Args:
      log: where they are written.
      every: window in steps.
      batch_size: examples in one step.
      dataset_size: examples in one epoch.
      tokens_per_example: None where an example is not a text.
      first_step: the step from which epochs are counted; in a batch ramp it may be below 0.
      examples: also write `examples`, those seen since that step, and `batch_size`, as where the batch changes.

    Attributes:
      latest: the scalars of the latest window by name; empty before the first.
    """

    def __init__(
        self,
        log: MetricsLog,
        *,
        every: float,
        batch_size: int,
        dataset_size: int,
        tokens_per_example: float | None = None,
        first_step: float = 0,
        examples: bool = False,
    ) -> None:
        super().__init__()
        self._log = log
        self._every = every
        self._batch_size = batch_size
        self._dataset_size = dataset_size
        self._tokens_per_example = tokens_per_example
        self._first_step = first_step
        self._examples = examples
        self.latest: dict[str, float] = {}

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        super().on_epoch_begin(epoch, logs)
        self._restart_window()

    def on_steps(self, before: int, step: int, logs: Logs) -> None:
        if crosses(before, step, self._every):
            self._write(logs)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if self.step > self._window_start:
            self._write(logs)

    def _restart_window(self) -> None:
        self._window_start, self._window_time = self.step, time.perf_counter()

    def _write(self, logs: Logs) -> None:
        scalars = {name: float(value) for name, value in (logs or {}).items()}
        examples = (self.step - self._window_start) * self._batch_size
        scalars["examples_per_second"] = examples / (time.perf_counter() - self._window_time)
        if self._tokens_per_example:
            scalars["tokens_per_second"] = scalars["examples_per_second"] * self._tokens_per_example
        scalars["learning_rate"] = learning_rate_at(self.model.optimizer, self.step - 1)
        seen = (self.step - self._first_step) * self._batch_size
        scalars["epoch"] = seen / self._dataset_size
        if self._examples:
            scalars.update(examples=float(seen), batch_size=float(self._batch_size))
        self._log.write("train", self.step, scalars)
        self.latest = scalars
        self.model.reset_metrics()
        self._restart_window()


def learning_rate_at(optimizer: tf_keras.optimizers.Optimizer, step: int) -> float:
    """The learning rate of step number `step` (from 0)."""
    if isinstance(optimizer, tf_keras.mixed_precision.LossScaleOptimizer):
        optimizer = optimizer.inner_optimizer
    # Keras' public `learning_rate` is the value of the latest step; a legacy optimizer has no such attribute.
    learning_rate = getattr(optimizer, "_learning_rate", None)
    if isinstance(learning_rate, tf_keras.optimizers.schedules.LearningRateSchedule):
        # A NumPy number: TensorFlow keeps every Python number that it made a tensor of.
        return float(learning_rate(tf.constant(np.int64(step))))
    return float(tf.convert_to_tensor(optimizer.learning_rate))
