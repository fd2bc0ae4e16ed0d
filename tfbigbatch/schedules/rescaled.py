"""A schedule read at another pace: for a stage of a run with a larger batch. The same for Keras 2 and Keras 3."""

from __future__ import annotations

from typing import Any

from tfbigbatch import keras_version
from tfbigbatch.schedules.warmup import check_schedule
from tfbigbatch.utils import arguments


class RescaledSchedules:
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

    # Keras' module of schedules, and the module of its tensors' functions; set by the class for each Keras.
    keras_schedules: Any = None
    ops: Any = None

    def __init__(self, schedule: Any, start: float = 0.0, pace: float = 1.0, factor: float = 1.0) -> None:
        super().__init__()
        self.schedule = check_schedule("schedule", schedule, self.keras_schedules)
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
        schedule = config["schedule"]
        if isinstance(schedule, dict):
            schedule = cls.keras_schedules.deserialize(schedule)
        return cls(schedule, config["start"], config["pace"], config["factor"])


def rescale(
    schedule: Any, *, start: float = 0.0, pace: float = 1.0, factor: float = 1.0, keras: str | None = None
) -> Any:
    """A schedule that reads another one from step `start` on, at `pace` of its steps in one, times `factor`.

    Args:
      schedule, start, pace, factor: of `RescaledSchedules`.
      keras: 'tf_keras', 'keras3', or None for the `tf.keras` in use.

    Returns:
      A serialisable `RescaledSchedule`.

    Raises:
      ValueError: as for `RescaledSchedules`.
    """
    classes = keras_version.module_for("tfbigbatch.schedules", keras)
    return classes.RescaledSchedule(schedule, start, pace, factor)
