"""Training scalars every so many updates."""

import time

import numpy as np
import tensorflow as tf
import tf_keras

from tfbigbatch.training.callbacks.base import StepCallback, crosses


class StepMetrics(StepCallback):
    """Writes training scalars every so many updates: the mean of each metric over the window.

    It resets the model's metrics after each window, so Keras' own epoch logs are of the last
    window only. Also written: learning_rate, epoch and examples_per_second, and for texts
    tokens_per_second.

    Args:
      log: MetricsLog.
      every: window in updates.
      batch_size: examples in one update.
      dataset_size: examples in one epoch.
      tokens_per_example: None where an example is not of tokens.
      first_step: the update that the epochs are counted from.
    """

    def __init__(self, log, *, every, batch_size, dataset_size, tokens_per_example=None, first_step=0):
        super().__init__()
        self._log = log
        self._every = every
        self._batch_size = batch_size
        self._dataset_size = dataset_size
        self._tokens_per_example = tokens_per_example
        self._first_step = first_step

    def on_epoch_begin(self, epoch, logs=None):
        super().on_epoch_begin(epoch, logs)
        self._restart_window()

    def on_steps(self, before, step, logs):
        if crosses(before, step, self._every):
            self._write(logs)

    def on_epoch_end(self, epoch, logs=None):
        if self.step > self._window_start:
            self._write(logs)

    def _restart_window(self):
        self._window_start, self._window_time = self.step, time.perf_counter()

    def _write(self, logs):
        scalars = {name: float(value) for name, value in logs.items()}
        examples = (self.step - self._window_start) * self._batch_size
        scalars["examples_per_second"] = examples / (time.perf_counter() - self._window_time)
        if self._tokens_per_example:
            scalars["tokens_per_second"] = scalars["examples_per_second"] * self._tokens_per_example
        scalars["learning_rate"] = learning_rate_at(self.model.optimizer, self.step - 1)
        scalars["epoch"] = (self.step - self._first_step) * self._batch_size / self._dataset_size
        self._log.write("train", self.step, scalars)
        self.model.reset_metrics()
        self._restart_window()


def learning_rate_at(optimizer, step):
    """The rate that update number `step` (from 0) used."""
    # Loss scaling wraps the optimizer that holds the schedule.
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    rate = getattr(optimizer, "_learning_rate", None)
    if isinstance(rate, tf_keras.optimizers.schedules.LearningRateSchedule):
        # Of NumPy: TensorFlow keeps every Python number that it has made a tensor of.
        return float(rate(tf.constant(np.int64(step))))
    return float(tf.convert_to_tensor(optimizer.learning_rate))
