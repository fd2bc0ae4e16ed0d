"""Schedules one after the other, and a schedule read at another pace. The same for Keras 2 and Keras 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfbigbatch import keras_version
from tfbigbatch.errors import InputError
from tfbigbatch.schedules.warmup import ScheduleMixin
from tfbigbatch.utils import arguments


class PhasedSchedules(ScheduleMixin):
    """Several schedules, one after the other.

    Args:
      schedules: schedules of the same Keras, at least one.
      steps: the steps of each phase, 1 or more; the last schedule continues after its end.

    Raises:
      ValueError: there is no phase, or the two differ in length, a phase has no step, or a schedule is not of this
        Keras.
    """

    def __init__(self, schedules: Sequence[Any], steps: Sequence[int]) -> None:
        super().__init__()
        schedules, steps = arguments.items("schedules", schedules), arguments.items("steps", steps)
        if not schedules or len(schedules) != len(steps):
            raise InputError(
                f"phases of {steps} steps for {len(schedules)} schedules: expected one number of steps for each, and "
                "at least one schedule."
            )
        self.schedules = [self._checked(f"schedules[{index}]", each) for index, each in enumerate(schedules)]
        self.steps = arguments.integers("steps", steps, least=1)

    def __call__(self, step: Any) -> Any:
        step = self.ops.cast(step, "float32")
        start = sum(self.steps[:-1])
        learning_rate = self.schedules[-1](self.ops.maximum(step - start, 0.0))
        for schedule, steps in reversed(list(zip(self.schedules[:-1], self.steps[:-1]))):
            end, start = start, start - steps
            in_phase = schedule(self.ops.minimum(self.ops.maximum(step - start, 0.0), float(steps)))
            learning_rate = self.ops.where(step < end, in_phase, learning_rate)
        return learning_rate

    def get_config(self) -> dict[str, Any]:
        return {"schedules": [self.keras_schedules.serialize(each) for each in self.schedules], "steps": self.steps}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> PhasedSchedules:
        return cls([cls._made(each) for each in config["schedules"]], config["steps"])


def in_phases(schedules: Sequence[Any], steps: Sequence[int], keras: str | None = None) -> Any:
    """Joins schedules into one: each starts, at its own first step, at the end of the one before it.

    Args:
      schedules: Keras schedules, such as `build` returns.
      steps: the steps of each.
      keras: 'tf_keras', 'keras3', or None for the `tf.keras` in use.

    Returns:
      The schedule itself if there is one, otherwise a serialisable `PhasedSchedule`.

    Raises:
      ValueError: as for `PhasedSchedule`.
    """
    phased = keras_version.module_for("tfbigbatch.schedules", keras).PhasedSchedule(schedules, steps)
    return phased if len(phased.schedules) > 1 else phased.schedules[0]


class RescaledSchedules(ScheduleMixin):
    """`factor * schedule(start + pace * step)`: a step here is `pace` steps of the schedule.

    Where the batch becomes k times as large at step `start` of a schedule, each step sees k times as many examples:
    `pace` is k, and `factor` what a scaling rule gives for it.

    Args:
      schedule: a schedule of this Keras.
      start: the schedule's step at step 0, 0 or more.
      pace: steps of the schedule in one step, above 0.
      factor: of the learning rate, 0 or more.

    Raises:
      ValueError: a number is out of range, or the schedule is not of this Keras.
    """

    def __init__(self, schedule: Any, start: float = 0.0, pace: float = 1.0, factor: float = 1.0) -> None:
        super().__init__()
        self.schedule = self._checked("schedule", schedule)
        self.start = arguments.number("start", start, least=0)
        self.pace = arguments.number("pace", pace, above=0)
        self.factor = arguments.number("factor", factor, least=0)

    def __call__(self, step: Any) -> Any:
        return self.factor * self.schedule(self.start + self.pace * self.ops.cast(step, "float32"))

    def get_config(self) -> dict[str, Any]:
        schedule = self.keras_schedules.serialize(self.schedule)
        return {"schedule": schedule, "start": self.start, "pace": self.pace, "factor": self.factor}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> RescaledSchedules:
        return cls(**{**config, "schedule": cls._made(config["schedule"])})
