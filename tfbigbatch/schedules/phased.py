"""Schedules one after the other, each counted from its own first step. The same for Keras 2 and Keras 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfbigbatch import keras_version
from tfbigbatch.errors import InputError


class PhasedSchedules:
    """Several schedules, one after the other.

    Args:
      schedules: Keras schedules, at least one.
      steps: the steps of each phase, 1 or more; the last schedule continues after its end.

    Raises:
      ValueError: there is no phase, or the two differ in length, or a phase has no step.
    """

    # Keras' module of schedules; set by the class of each Keras.
    keras_schedules: Any = None

    def __init__(self, schedules: Sequence[Any], steps: Sequence[int]) -> None:
        super().__init__()
        if not schedules or len(schedules) != len(steps) or min(steps) < 1:
            raise InputError(
                f"phases of {list(steps)} steps for {len(schedules)} schedules: expected 1 or more for each, and at "
                "least one schedule."
            )
        self.schedules = list(schedules)
        self.steps = list(steps)

    def __call__(self, step: Any) -> tf.Tensor:
        step = tf.cast(step, tf.float32)
        start = sum(self.steps[:-1])
        learning_rate = self.schedules[-1](tf.maximum(step - start, 0.0))
        for schedule, steps in reversed(list(zip(self.schedules[:-1], self.steps[:-1]))):
            end, start = start, start - steps
            in_phase = schedule(tf.clip_by_value(step - start, 0.0, float(steps)))
            learning_rate = tf.where(step < end, in_phase, learning_rate)
        return learning_rate

    def get_config(self) -> dict[str, Any]:
        return {"schedules": [self.keras_schedules.serialize(each) for each in self.schedules], "steps": self.steps}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> PhasedSchedules:
        schedules = [
            cls.keras_schedules.deserialize(each) if isinstance(each, dict) else each for each in config["schedules"]
        ]
        return cls(schedules, config["steps"])


def in_phases(schedules: Sequence[Any], steps: Sequence[int], keras: str | None = None) -> Any:
    """Joins schedules into one: each starts, at its own first step, at the end of the one before it.

    Args:
      schedules: Keras schedules, such as `build` returns.
      steps: the steps of each.
      keras: 'tf_keras', 'keras3', or None for the `tf.keras` in use.

    Returns:
      The schedule itself if there is one, otherwise a serialisable `PhasedSchedule`.

    Raises:
      ValueError: the two differ in length, or a phase has no step.
    """
    phased = keras_version.module_for("tfbigbatch.schedules", keras).PhasedSchedule(schedules, steps)
    return phased if len(schedules) > 1 else schedules[0]
