"""A warm-up with a peak that can be changed during training."""

from __future__ import annotations

import sys
from typing import Any

from tfbigbatch import keras_version
from tfbigbatch.errors import InputError
from tfbigbatch.schedules.warmup import WarmupSchedule, linear_warmup
from tfbigbatch.utils import arguments


class AdjustableSchedule(WarmupSchedule):
    """A linear warm-up and the schedule after it, scaled by a gain in a variable.

        learning_rate(t) = min(peak * t / warmup_steps, gain * after(t - warmup_steps))

    With a gain of 1 this is the plan. Below 1 the warm-up ends early, at `gain * warmup_steps`, at a peak of
    `gain * peak`; above 1 it continues at the same slope until it meets `gain` times the decay. The learning rate never
    jumps up when the gain is changed during the warm-up.

    Make it where the optimizer is made, inside the strategy's scope: the variable then belongs to
    that strategy. It is read in the graph, so that changing it needs no new trace.

    Args:
      peak, warmup_steps, after, hold_steps: the plan, as for `WarmupSchedule`; `after` starts at the peak.
      gain: above 0; 1 is the plan.

    Attributes:
      gain: the float32 tf.Variable; assign to it to change the peak and the end of the warm-up.

    Raises:
      ValueError: an argument is out of range, `after` is not a schedule of this Keras or does not start at the peak,
        or Keras 3 runs on another backend than TensorFlow.
    """

    def __init__(
        self, peak: float, warmup_steps: int, after: Any = None, hold_steps: int = 0, gain: float = 1.0
    ) -> None:
        keras_version.require_tensorflow(self, "An adjustable schedule")
        # Here alone, as the other schedules of Keras 3 run without TensorFlow.
        import tensorflow as tf

        super().__init__(peak, warmup_steps, after, hold_steps)
        gain = arguments.number("gain", gain, above=0)
        if after is not None:
            first = float(after(tf.constant(0.0)))
            if not abs(first - self.peak) <= 1e-5 * self.peak:
                raise InputError(
                    f"after begins at {first:.6g}, the warm-up ends at peak={self.peak:.6g}: an adjustable schedule is "
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

    def __call__(self, step: Any) -> Any:
        step = self.ops.cast(step, "float32")
        ceiling = self.ops.convert_to_tensor(self.gain) * self.after_warmup(
            self.ops.maximum(step - self.warmup_steps, 0.0)
        )
        if self.warmup_steps == 0:
            return ceiling
        # peak * t / t can round below the peak, where the plain warm-up ends.
        rising = linear_warmup(step, self.peak, self.warmup_steps)
        return self.ops.minimum(self.ops.where(step == self.warmup_steps, self.peak, rising), ceiling)

    def get_config(self) -> dict[str, Any]:
        plan = super().get_config()
        del plan["warmup_shape"]
        return {**plan, "gain": float(self.gain.numpy())}


def make_adjustable(schedule: Any) -> Any:
    """The same warm-up and decay, with a gain that DATE can change.

    Args:
      schedule: a `GradualWarmup` of either Keras, as `schedules.build` returns. An adjustable one is
        returned as it is.

    Raises:
      ValueError: it is another schedule, or its warm-up is not linear.
    """
    if isinstance(schedule, AdjustableSchedule):
        return schedule
    if not isinstance(schedule, WarmupSchedule):
        raise InputError(
            f"{schedule!r} cannot be adjusted: expected a GradualWarmup of tf_keras or Keras 3, as "
            "tfbigbatch.schedules.build returns."
        )
    if schedule.warmup_shape != "linear":
        raise InputError(
            f"a warm-up with warmup_shape={schedule.warmup_shape!r} cannot be adjusted: use warmup_shape='linear'."
        )
    classes = sys.modules[type(schedule).__module__]
    return classes.AdjustableWarmup(schedule.peak, schedule.warmup_steps, schedule.after, schedule.hold_steps)
