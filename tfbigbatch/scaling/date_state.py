"""What DATE's decisions depend on, in variables: a resumed run decides the same."""

import tensorflow as tf


class DATEState(tf.Module):
    """Put it in the run's checkpoint: `tf.train.Checkpoint(..., date=callback.state)`.

    Scalars, float32 unless said otherwise.

    Attributes:
      last_look: int64, the update after which the last look was; 0 before the first.
      measurements: int64, looks in the two averages.
      squared_norm, trace: exponential averages of |G|^2 and tr(Sigma), with the bias to 0.
      first_loss, best_loss: on the probe; 0 and infinity before the first look. The best is NaN from
        a loss that is not finite until the next that is.
      gain: the schedule's.
      ended: bool, a blow-up has ended the rise.
    """

    def __init__(self):
        super().__init__(name="date")

        def scalar(name, value, dtype):
            return tf.Variable(value, dtype=dtype, trainable=False, name=name)

        self.last_look = scalar("last_look", 0, tf.int64)
        self.measurements = scalar("measurements", 0, tf.int64)
        self.squared_norm = scalar("squared_norm", 0.0, tf.float32)
        self.trace = scalar("trace", 0.0, tf.float32)
        self.first_loss = scalar("first_loss", 0.0, tf.float32)
        self.best_loss = scalar("best_loss", float("inf"), tf.float32)
        self.gain = scalar("gain", 1.0, tf.float32)
        self.ended = scalar("ended", False, tf.bool)

    def value(self, name):
        """The value of one attribute, as Python's own type."""
        return getattr(self, name).numpy().item()
