"""Gradual warm-up to the peak learning rate, then another schedule. The same for Keras 2 and Keras 3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfbigbatch.errors import InputError, nearest

# Fraction of the peak at which an exponential warm-up starts.
_FIRST_FRACTION = 0.01


def linear_warmup(step: tf.Tensor, peak: float, warmup_steps: int) -> tf.Tensor:
    """The learning rate at `step` (float32, from 0), on the straight line from 0 to `peak` at `warmup_steps`."""
    return peak * step / warmup_steps


def exponential_warmup(step: tf.Tensor, peak: float, warmup_steps: int) -> tf.Tensor:
    """The learning rate at `step` (float32, from 0), exponential from 1% of `peak` to `peak` at `warmup_steps`.

    As in MLPerf's GNMT.
    """
    return peak * _FIRST_FRACTION ** (1.0 - step / warmup_steps)


WARMUP_SHAPES: dict[str, Callable[..., tf.Tensor]] = {"linear": linear_warmup, "exponential": exponential_warmup}


class WarmupSchedule:
    """A gradual warm-up to a peak learning rate, followed by another schedule.

    Raises the learning rate over `warmup_steps` steps, linearly from 0 (Goyal et al. 2017, arXiv:1706.02677,
    section 2.2) or exponentially; keeps the peak for `hold_steps` steps, then follows `after`.

    Args:
      peak: the learning rate at the end of the warm-up.
      warmup_steps: in optimizer steps; 0 means no warm-up.
      after: the Keras schedule that follows, counted from the end of the hold; None keeps the peak.
      hold_steps: in optimizer steps.
      rise: shape of the warm-up, one of WARMUP_SHAPES: 'linear' or 'exponential'.

    Raises:
      ValueError: the shape is unknown.
    """

    # Keras' module of schedules; set by the class of each Keras.
    keras_schedules: Any = None

    def __init__(
        self, peak: float, warmup_steps: int, after: Any = None, hold_steps: int = 0, rise: str = "linear"
    ) -> None:
        super().__init__()
        if rise not in WARMUP_SHAPES:
            raise InputError(f"the warm-up's rise {rise!r} is unknown. {nearest(rise, WARMUP_SHAPES)}")
        self.peak = peak
        self.warmup_steps = warmup_steps
        self.after = after
        self.hold_steps = hold_steps
        self.rise = rise

    def __call__(self, step: Any) -> tf.Tensor:
        step = tf.cast(step, tf.float32)
        following = self.after_warmup(tf.maximum(step - self.warmup_steps, 0.0))
        if self.warmup_steps == 0:
            return following
        warmup = WARMUP_SHAPES[self.rise](step, self.peak, self.warmup_steps)
        return tf.where(step < self.warmup_steps, warmup, following)

    def after_warmup(self, since: tf.Tensor) -> tf.Tensor:
        """The learning rate `since` steps (float32, 0 or more) after the end of the warm-up."""
        if self.after is None:
            return tf.constant(self.peak, tf.float32)
        return tf.cast(self.after(tf.maximum(since - self.hold_steps, 0.0)), tf.float32)

    def get_config(self) -> dict[str, Any]:
        after = None if self.after is None else self.keras_schedules.serialize(self.after)
        return {
            "peak": self.peak,
            "warmup_steps": self.warmup_steps,
            "after": after,
            "hold_steps": self.hold_steps,
            "rise": self.rise,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> WarmupSchedule:
        after = config["after"]
        if isinstance(after, dict):
            config = {**config, "after": cls.keras_schedules.deserialize(after)}
        return cls(**config)
