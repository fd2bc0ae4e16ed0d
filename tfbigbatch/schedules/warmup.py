"""Gradual warm-up: from zero to the peak rate, then whatever schedule follows."""

import tensorflow as tf
import tf_keras


@tf_keras.saving.register_keras_serializable(package="tfbigbatch")
class GradualWarmup(tf_keras.optimizers.schedules.LearningRateSchedule):
    """Raises the rate linearly from 0 over `warmup_steps` updates, then hands over to `after`.

    Goyal et al. 2017 (arXiv:1706.02677), section 2.2.

    Args:
      peak: the rate at the end of the warm-up.
      warmup_steps: int, in optimizer updates; 0 means none.
      after: the schedule that follows, counted from the warm-up's end; None keeps the peak.
    """

    def __init__(self, peak, warmup_steps, after=None):
        super().__init__()
        self.peak = peak
        self.warmup_steps = warmup_steps
        self.after = after

    def __call__(self, step):
        step = tf.cast(step, tf.float32)
        since = tf.maximum(step - self.warmup_steps, 0.0)
        following = self.after(since) if self.after is not None else tf.constant(self.peak, tf.float32)
        if self.warmup_steps == 0:
            return following
        return tf.where(step < self.warmup_steps, self.peak * step / self.warmup_steps, following)

    def get_config(self):
        schedules = tf_keras.optimizers.schedules
        after = None if self.after is None else schedules.serialize(self.after)
        return {"peak": self.peak, "warmup_steps": self.warmup_steps, "after": after}

    @classmethod
    def from_config(cls, config):
        after = config["after"]
        if isinstance(after, dict):
            after = tf_keras.optimizers.schedules.deserialize(after)
        return cls(config["peak"], config["warmup_steps"], after)
