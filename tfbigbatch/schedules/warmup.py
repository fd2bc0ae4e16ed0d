"""Gradual warm-up to the peak learning rate, then another schedule. The same for Keras 2 and Keras 3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfbigbatch.errors import InputError
from tfbigbatch.utils import arguments

# Fraction of the peak at which an exponential warm-up starts.
_FIRST_FRACTION = 0.01


def linear_warmup(step: Any, peak: float, warmup_steps: int) -> Any:
    """The learning rate at `step` (float32, from 0), on the straight line from 0 to `peak` at `warmup_steps`."""
    return peak * step / warmup_steps


def exponential_warmup(step: Any, peak: float, warmup_steps: int) -> Any:
    """The learning rate at `step` (float32, from 0), exponential from 1% of `peak` to `peak` at `warmup_steps`.

    As in MLPerf's GNMT.
    """
    return peak * _FIRST_FRACTION ** (1.0 - step / warmup_steps)


WARMUP_SHAPES: dict[str, Callable[..., Any]] = {"linear": linear_warmup, "exponential": exponential_warmup}


class ScheduleMixin:
    """The parts of a schedule that depend on its Keras; its class for a Keras sets them."""

    # Keras' module of schedules, and the module of its tensors' functions.
    keras_schedules: Any
    ops: Any

    def _checked(self, name: str, schedule: Any) -> Any:
        """The schedule itself; raises ValueError if it is not one of this Keras."""
        kind = self.keras_schedules.LearningRateSchedule
        if not isinstance(schedule, kind):
            raise InputError(
                f"{name}={schedule!r} is not a {kind.__module__}.{kind.__name__}: take a schedule of the Keras that "
                "the optimizer is for."
            )
        return schedule

    @classmethod
    def _made(cls, config: Any) -> Any:
        """The schedule of a config of Keras; None, and a schedule, as they are."""
        return cls.keras_schedules.deserialize(config) if isinstance(config, dict) else config


class WarmupSchedule(ScheduleMixin):
    """A gradual warm-up to a peak learning rate, followed by another schedule.

    Raises the learning rate over `warmup_steps` steps, linearly from 0 (Goyal et al. 2017, arXiv:1706.02677,
    section 2.2) or exponentially; keeps the peak for `hold_steps` steps, then follows `after`.

    Args:
      peak: the learning rate at the end of the warm-up, 0 or more.
      warmup_steps: in optimizer steps; 0 means no warm-up.
      after: the schedule of the same Keras that follows, counted from the end of the hold; None keeps the peak.
      hold_steps: in optimizer steps, 0 or more.
      warmup_shape: one of WARMUP_SHAPES: 'linear' or 'exponential'.

    Raises:
      ValueError: an argument is out of range, the shape is unknown, or `after` is not a schedule of this Keras.
    """

    def __init__(
        self, peak: float, warmup_steps: int, after: Any = None, hold_steps: int = 0, warmup_shape: str = "linear"
    ) -> None:
        super().__init__()
        self.peak = arguments.number("peak", peak, least=0)
        self.warmup_steps = arguments.integer("warmup_steps", warmup_steps, least=0)
        self.after = None if after is None else self._checked("after", after)
        self.hold_steps = arguments.integer("hold_steps", hold_steps, least=0)
        self.warmup_shape = arguments.one_of("warmup_shape", warmup_shape, WARMUP_SHAPES)

    def __call__(self, step: Any) -> Any:
        step = self.ops.cast(step, "float32")
        following = self.after_warmup(self.ops.maximum(step - self.warmup_steps, 0.0))
        if self.warmup_steps == 0:
            return following
        warmup = WARMUP_SHAPES[self.warmup_shape](step, self.peak, self.warmup_steps)
        return self.ops.where(step < self.warmup_steps, warmup, following)

    def after_warmup(self, since: Any) -> Any:
        """The learning rate `since` steps (float32, 0 or more) after the end of the warm-up."""
        if self.after is None:
            return self.ops.cast(self.peak, "float32")
        return self.ops.cast(self.after(self.ops.maximum(since - self.hold_steps, 0.0)), "float32")

    def get_config(self) -> dict[str, Any]:
        after = None if self.after is None else self.keras_schedules.serialize(self.after)
        return {
            "peak": self.peak,
            "warmup_steps": self.warmup_steps,
            "after": after,
            "hold_steps": self.hold_steps,
            "warmup_shape": self.warmup_shape,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> WarmupSchedule:
        return cls(**{**config, "after": cls._made(config["after"])})
