"""One schedule after the other, each counted from its own first update. The maths of both Kerases."""

import tensorflow as tf

from tfbigbatch import keras_version
from tfbigbatch.errors import InputError


class PhasedSchedules:
    """What `PhasedSchedule` is in both Kerases; each mixes it with its own LearningRateSchedule.

    Args:
      schedules: Keras schedules, at least one.
      steps: int, the updates of each phase, 1 or more; the last phase goes on after its end.

    Raises:
      ValueError: there is no phase, or the two are not of one length, or a phase has no update.
    """

    # Keras' module of schedules, set by each face.
    keras_schedules = None

    def __init__(self, schedules, steps):
        super().__init__()
        if not schedules or len(schedules) != len(steps) or min(steps) < 1:
            raise InputError(
                f"phases of {list(steps)} updates for {len(schedules)} schedules: expected 1 or more for each, and at "
                "least one schedule."
            )
        self.schedules = list(schedules)
        self.steps = list(steps)

    def __call__(self, step):
        step = tf.cast(step, tf.float32)
        start = sum(self.steps[:-1])
        rate = self.schedules[-1](tf.maximum(step - start, 0.0))
        for schedule, steps in reversed(list(zip(self.schedules[:-1], self.steps[:-1]))):
            end, start = start, start - steps
            rate = tf.where(step < end, schedule(tf.clip_by_value(step - start, 0.0, float(steps))), rate)
        return rate

    def get_config(self):
        return {"schedules": [self.keras_schedules.serialize(each) for each in self.schedules], "steps": self.steps}

    @classmethod
    def from_config(cls, config):
        schedules = [
            cls.keras_schedules.deserialize(each) if isinstance(each, dict) else each for each in config["schedules"]
        ]
        return cls(schedules, config["steps"])


def in_phases(schedules, steps, keras=None):
    """One schedule of several: each begins, from its own start, where the one before it has made its updates.

    Args:
      schedules: Keras schedules, such as `build` gives.
      steps: the updates of each.
      keras: 'tf_keras', 'keras3', or None for the `tf.keras` in use.

    Returns:
      The schedule itself where it is one, else a serialisable `PhasedSchedule`.

    Raises:
      ValueError: the two are not of one length, or a phase has no update.
    """
    phased = keras_version.module_for("tfbigbatch.schedules", keras).PhasedSchedule(schedules, steps)
    return phased if len(schedules) > 1 else schedules[0]
