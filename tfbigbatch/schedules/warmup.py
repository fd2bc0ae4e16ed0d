"""Gradual warm-up to the peak rate, then whatever schedule follows. The maths of both Kerases."""

import tensorflow as tf

from tfbigbatch.errors import InputError, nearest

# The share of the peak that an exponential rise begins with.
_FIRST_SHARE = 0.01


def linear_warmup(step, peak, warmup_steps):
    """The rate of update `step` (float32, from 0) on the straight line from 0 to `peak` at `warmup_steps`."""
    return peak * step / warmup_steps


def exponential_warmup(step, peak, warmup_steps):
    """The rate of update `step` (float32, from 0), times the same at each, from 1% of `peak` to it at `warmup_steps`.

    As in MLPerf's GNMT.
    """
    return peak * _FIRST_SHARE ** (1.0 - step / warmup_steps)


WARMUP_SHAPES = {"linear": linear_warmup, "exponential": exponential_warmup}


class WarmupSchedule:
    """What `GradualWarmup` is in both Kerases; each mixes it with its own LearningRateSchedule.

    Raises the rate over `warmup_steps` updates, linearly from 0 (Goyal et al. 2017, arXiv:1706.02677,
    section 2.2) or exponentially; keeps the peak for `hold_steps` updates, then hands over to `after`.

    Args:
      peak: the rate at the end of the warm-up.
      warmup_steps: int, in optimizer updates; 0 means none.
      after: the Keras schedule that follows, counted from the end of the hold; None keeps the peak.
      hold_steps: int, in optimizer updates.
      rise: of RISES: 'linear' or 'exponential'.

    Raises:
      ValueError: the rise is unknown.
    """

    # Keras' module of schedules, set by each face.
    keras_schedules = None

    def __init__(self, peak, warmup_steps, after=None, hold_steps=0, rise="linear"):
        super().__init__()
        if rise not in WARMUP_SHAPES:
            raise InputError(f"the warm-up's rise {rise!r} is unknown. {nearest(rise, WARMUP_SHAPES)}")
        self.peak = peak
        self.warmup_steps = warmup_steps
        self.after = after
        self.hold_steps = hold_steps
        self.rise = rise

    def __call__(self, step):
        step = tf.cast(step, tf.float32)
        following = self.after_warmup(tf.maximum(step - self.warmup_steps, 0.0))
        if self.warmup_steps == 0:
            return following
        return tf.where(
            step < self.warmup_steps, WARMUP_SHAPES[self.rise](step, self.peak, self.warmup_steps), following
        )

    def after_warmup(self, since):
        """The rate `since` updates (float32, 0 or more) after the warm-up's end."""
        if self.after is None:
            return tf.constant(self.peak, tf.float32)
        return tf.cast(self.after(tf.maximum(since - self.hold_steps, 0.0)), tf.float32)

    def get_config(self):
        after = None if self.after is None else self.keras_schedules.serialize(self.after)
        return {
            "peak": self.peak,
            "warmup_steps": self.warmup_steps,
            "after": after,
            "hold_steps": self.hold_steps,
            "rise": self.rise,
        }

    @classmethod
    def from_config(cls, config):
        after = config["after"]
        if isinstance(after, dict):
            config = {**config, "after": cls.keras_schedules.deserialize(after)}
        return cls(**config)
