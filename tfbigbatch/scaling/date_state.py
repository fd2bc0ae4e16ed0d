"""The state of DATE in variables, so that a resumed run makes the same decisions."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class DATEState(tf.Module):
    """Put it in the run's checkpoint: `tf.train.Checkpoint(..., date=callback.state)`.

    Scalars, float32 unless noted. The names of the attributes are in checkpoints.

    Attributes:
      last_look: int64, the step of the last measurement; 0 before the first.
      measurements: int64, number of measurements in the two averages.
      squared_norm, trace: exponential averages of |G|^2 and tr(Sigma), biased to 0.
      first_loss, best_loss: on the probe; 0 and infinity before the first measurement. After a loss that is not finite
        the best is NaN until the next finite one.
      gain: of the schedule.
      ended: bool, whether a blow-up has ended the warm-up.
    """

    def __init__(self) -> None:
        super().__init__(name="date")

        def scalar(name: str, value: Any, dtype: tf.DType) -> tf.Variable:
            return tf.Variable(value, dtype=dtype, trainable=False, name=name)

        self.last_look = scalar("last_look", 0, tf.int64)
        self.measurements = scalar("measurements", 0, tf.int64)
        self.squared_norm = scalar("squared_norm", 0.0, tf.float32)
        self.trace = scalar("trace", 0.0, tf.float32)
        self.first_loss = scalar("first_loss", 0.0, tf.float32)
        self.best_loss = scalar("best_loss", float("inf"), tf.float32)
        self.gain = scalar("gain", 1.0, tf.float32)
        self.ended = scalar("ended", False, tf.bool)

    def value(self, name: str) -> Any:
        """The value of an attribute, as a Python number."""
        return getattr(self, name).numpy().item()
