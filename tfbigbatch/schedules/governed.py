"""A warm-up whose peak, and with it the rise's end, can be changed while the run goes on."""

import importlib

import tensorflow as tf

from tfbigbatch.errors import InputError


def governed_rate(step, following, *, peak, warmup_steps, gain):
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
    rise = tf.where(step == warmup_steps, peak, peak * step / warmup_steps)
    return tf.minimum(rise, ceiling)


class GovernedMixin:
    """Mixed into a Keras schedule: `governed_rate` with the gain in a variable.

    Make it where the optimizer is made, inside the strategy's scope: the variable is then one of
    that strategy's. It is read in the graph, so that changing it traces nothing anew.

    Args:
      peak: float, the planned rate at the end of the warm-up.
      warmup_steps: int, the planned warm-up in optimizer updates.
      after: the schedule that follows, of the same Keras, counted from the warm-up's end and equal
        to the peak at 0; None keeps the peak.
      gain: float above 0; 1 is the plan.

    Attributes:
      gain: the float32 tf.Variable; assign to it to change the peak and the rise's end.

    Raises:
      ValueError: `after` is no schedule of this Keras, or does not begin at the peak.
    """

    def __init__(self, peak, warmup_steps, after=None, gain=1.0):
        super().__init__()
        if after is not None:
            if not isinstance(after, self.keras_schedule):
                raise InputError(
                    f"after={after!r} is not a {self.keras_schedule.__module__}.{self.keras_schedule.__name__}: take a "
                    "schedule of the Keras that the optimizer is for, or None."
                )
            first = float(after(tf.constant(0.0)))
            if abs(first - peak) > 1e-5 * abs(peak):
                raise InputError(
                    f"after begins at {first:.6g}, the warm-up ends at peak={peak:.6g}: a governed schedule is "
                    "continuous. Give a decay that begins at the peak."
                )
        self.peak = peak
        self.warmup_steps = warmup_steps
        self.after = after
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
        since = tf.maximum(step - self.warmup_steps, 0.0)
        following = tf.constant(self.peak, tf.float32) if self.after is None else tf.cast(self.after(since), tf.float32)
        return governed_rate(
            step, following, peak=self.peak, warmup_steps=self.warmup_steps, gain=tf.convert_to_tensor(self.gain)
        )

    def get_config(self):
        return {
            "peak": self.peak,
            "warmup_steps": self.warmup_steps,
            "after": None if self.after is None else self.keras_schedules.serialize(self.after),
            "gain": float(self.gain.numpy()),
        }

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        if isinstance(config["after"], dict):
            config["after"] = cls.keras_schedules.deserialize(config["after"])
        return cls(**config)


def govern(schedule):
    """The same warm-up and decay, with a gain that DATE can change.

    Args:
      schedule: a warm-up schedule of either Keras with the attributes `peak`, `warmup_steps` and
        `after` (see GovernedMixin), such as `tfbigbatch.schedules.GradualWarmup`. A governed one
        is returned as it is.

    Raises:
      ValueError: it has no such attributes, or is no Keras schedule.
    """
    if isinstance(schedule, GovernedMixin):
        return schedule
    if not all(hasattr(schedule, name) for name in ("peak", "warmup_steps", "after")):
        raise InputError(
            f"{schedule!r} cannot be governed: expected a warm-up with peak, warmup_steps and after, as "
            "tfbigbatch.schedules.build gives."
        )
    packages = [cls.__module__.partition(".")[0] for cls in type(schedule).__mro__]
    face = next((name for name in ("tf_keras", "keras") if name in packages), None)
    if face is None:
        raise InputError(f"{schedule!r} is not a LearningRateSchedule of tf_keras or Keras 3.")
    module = importlib.import_module(f"tfbigbatch.schedules.governed_{'keras3' if face == 'keras' else face}")
    return module.GovernedWarmup(schedule.peak, schedule.warmup_steps, schedule.after)
