"""A warm-up whose peak, and with it the rise's end, can be changed while the run goes on."""

import tensorflow as tf

from tfbigbatch import keras_version
from tfbigbatch.errors import InputError
from tfbigbatch.schedules.warmup import WarmupSchedule, linear_warmup


def adjusted_learning_rate(step, following, *, peak, warmup_steps, gain):
    """The rate at an update: the planned rise, held down by `gain` times what follows it.

    rate(t) = min(peak * t / warmup_steps, gain * following)

    With a gain of 1 this is the plan. Below 1 the rise ends early, at `gain * warmup_steps`, on a
    peak of `gain * peak`; above 1 it goes on at the same slope until it meets `gain` times the
    decay. The rate never jumps up when the gain is changed on the rise.

    Args:
      step: float32 scalar, the update's number from 0.
      following: float32 scalar, the planned rate after the warm-up, at max(step - warmup_steps, 0).
      gain: float32 scalar.

    Returns:
      float32 scalar.
    """
    ceiling = gain * following
    if warmup_steps == 0:
        return ceiling
    # peak * t / t can round below the peak, which the plain warm-up ends on.
    rise = tf.where(step == warmup_steps, peak, linear_warmup(step, peak, warmup_steps))
    return tf.minimum(rise, ceiling)


class AdjustableSchedule(WarmupSchedule):
    """What `GovernedWarmup` is in both Kerases: `WarmupSchedule` with `governed_rate`, the gain in a variable.

    Make it where the optimizer is made, inside the strategy's scope: the variable is then one of
    that strategy's. It is read in the graph, so that changing it traces nothing anew.

    Args:
      peak, warmup_steps, after, hold_steps: the plan, as of `WarmupSchedule`; `after` begins at the peak.
      gain: float above 0; 1 is the plan.

    Attributes:
      gain: the float32 tf.Variable; assign to it to change the peak and the rise's end.

    Raises:
      ValueError: `after` is no schedule of this Keras, or does not begin at the peak.
    """

    def __init__(self, peak, warmup_steps, after=None, hold_steps=0, gain=1.0):
        super().__init__(peak, warmup_steps, after, hold_steps)
        if after is not None:
            kind = self.keras_schedules.LearningRateSchedule
            if not isinstance(after, kind):
                raise InputError(
                    f"after={after!r} is not a {kind.__module__}.{kind.__name__}: take a schedule of the Keras that "
                    "the optimizer is for, or None."
                )
            first = float(after(tf.constant(0.0)))
            if abs(first - peak) > 1e-5 * abs(peak):
                raise InputError(
                    f"after begins at {first:.6g}, the warm-up ends at peak={peak:.6g}: a governed schedule is "
                    "continuous. Give a decay that begins at the peak."
                )
        with tf.init_scope():
            self.gain = tf.Variable(
                gain,
                dtype=tf.float32,
                trainable=False,
                name="gain",
                aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            )

    def __call__(self, step):
        step = tf.cast(step, tf.float32)
        following = self.after_warmup(tf.maximum(step - self.warmup_steps, 0.0))
        return adjusted_learning_rate(
            step, following, peak=self.peak, warmup_steps=self.warmup_steps, gain=tf.convert_to_tensor(self.gain)
        )

    def get_config(self):
        plan = super().get_config()
        del plan["rise"]
        return {**plan, "gain": float(self.gain.numpy())}


def make_adjustable(schedule):
    """The same warm-up and decay, with a gain that DATE can change.

    Args:
      schedule: a `GradualWarmup` of either Keras, as `schedules.build` makes. A governed one is
        returned as it is.

    Raises:
      ValueError: it is another schedule, or its warm-up is no straight line.
    """
    if isinstance(schedule, AdjustableSchedule):
        return schedule
    for name in keras_version.PACKAGES:
        face = keras_version.module_for("tfbigbatch.schedules", name)
        if isinstance(schedule, face.GradualWarmup):
            if schedule.rise != "linear":
                raise InputError(f"a warm-up with rise={schedule.rise!r} cannot be governed: take rise='linear'.")
            return face.AdjustableWarmup(schedule.peak, schedule.warmup_steps, schedule.after, schedule.hold_steps)
    raise InputError(
        f"{schedule!r} cannot be governed: expected a GradualWarmup of tf_keras or Keras 3, as "
        "tfbigbatch.schedules.build gives."
    )
