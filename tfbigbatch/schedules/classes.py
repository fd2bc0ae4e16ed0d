"""The schedules, for either Keras: `of_keras` makes the classes of `schedules.keras3` and `tfbigbatch.keras2`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tfbigbatch import keras_version
from tfbigbatch.errors import InputError
from tfbigbatch.utils import arguments

# Each shape: the learning rate at a step (float32, from 0) of a warm-up to the peak at `warmup_steps`.
WARMUP_SHAPES: dict[str, Callable[[Any, float, int], Any]] = {
    "linear": lambda step, peak, warmup_steps: peak * step / warmup_steps,
    # From 1% of the peak, as in MLPerf's GNMT.
    "exponential": lambda step, peak, warmup_steps: peak * 0.01 ** (1.0 - step / warmup_steps),
}


class Schedule:
    """What the schedules share: their Keras, which `of_keras` sets, and the config."""

    # The package of that Keras, and the module of its tensors' functions.
    keras: Any
    ops: Any
    # The arguments of the constructor, which are attributes too.
    fields: tuple[str, ...]

    def _checked(self, name: str, schedule: Any) -> Any:
        """The schedule itself; raises ValueError if it is not one of this Keras."""
        kind = self.keras.optimizers.schedules.LearningRateSchedule
        if not isinstance(schedule, kind):
            raise InputError(
                f"{name}={schedule!r} is not a {kind.__module__}.{kind.__name__}: take a schedule of the Keras that "
                "the optimizer is for."
            )
        return schedule

    def get_config(self) -> dict[str, Any]:
        schedules = self.keras.optimizers.schedules
        kind, convert = schedules.LearningRateSchedule, schedules.serialize
        return {name: _converted(getattr(self, name), kind, convert) for name in self.fields}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        convert = cls.keras.optimizers.schedules.deserialize
        return cls(**{name: _converted(value, dict, convert) for name, value in config.items()})


def _converted(value: Any, kind: type, convert: Callable[[Any], Any]) -> Any:
    """A value, or those in a list of them, with what is of a kind converted."""
    if isinstance(value, list):
        return [_converted(each, kind, convert) for each in value]
    return convert(value) if isinstance(value, kind) else value


class GradualWarmup(Schedule):
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

    fields = ("peak", "warmup_steps", "after", "hold_steps", "warmup_shape")

    def __init__(
        self, peak: float, warmup_steps: int, after: Any = None, hold_steps: int = 0, warmup_shape: str = "linear"
    ) -> None:
        self.peak = arguments.number("peak", peak, least=0)
        self.warmup_steps = arguments.integer("warmup_steps", warmup_steps, least=0)
        self.after = None if after is None else self._checked("after", after)
        self.hold_steps = arguments.integer("hold_steps", hold_steps, least=0)
        self.warmup_shape = arguments.one_of("warmup_shape", warmup_shape, WARMUP_SHAPES)

    def __call__(self, step: Any) -> Any:
        step, following = self.ops.cast(step, "float32"), self.peak
        if self.after is not None:
            following = self.after(self.ops.maximum(step - self.warmup_steps - self.hold_steps, 0.0))
        following = self.ops.cast(following, "float32")
        if self.warmup_steps == 0:
            return following
        rising = WARMUP_SHAPES[self.warmup_shape](step, self.peak, self.warmup_steps)
        return self.ops.where(step < self.warmup_steps, rising, following)


class PhasedSchedule(Schedule):
    """Several schedules, one after the other; see `in_phases`."""

    fields = ("schedules", "steps")

    def __init__(self, schedules: Sequence[Any], steps: Sequence[int]) -> None:
        schedules = arguments.items("schedules", schedules)
        self.schedules = [self._checked(f"schedules[{index}]", each) for index, each in enumerate(schedules)]
        self.steps = arguments.integers("steps", steps, least=1)
        if not schedules or len(schedules) != len(self.steps):
            raise InputError(
                f"phases of {self.steps} steps for {len(schedules)} schedules: expected one number of steps for each, "
                "and at least one schedule."
            )

    def __call__(self, step: Any) -> Any:
        step = self.ops.cast(step, "float32")
        start = sum(self.steps[:-1])
        learning_rate = self.schedules[-1](self.ops.maximum(step - start, 0.0))
        for schedule, steps in reversed(list(zip(self.schedules[:-1], self.steps[:-1]))):
            end, start = start, start - steps
            in_phase = schedule(self.ops.minimum(self.ops.maximum(step - start, 0.0), float(steps)))
            learning_rate = self.ops.where(step < end, in_phase, learning_rate)
        return learning_rate


def in_phases(schedules: Sequence[Any], steps: Sequence[int], keras: str | None = None) -> Any:
    """Joins schedules into one: each starts, at its own first step, at the end of the one before it.

    Args:
      schedules: Keras schedules, such as `build` returns; a single one is returned as it is.
      steps: the steps of each, 1 or more; the last schedule continues after its end.
      keras: 'tf_keras', 'keras3', or None for the `tf.keras` in use.

    Raises:
      ValueError: there is no schedule, the two differ in length, a phase has no step, or a schedule is not of this
        Keras.
    """
    phased = keras_version.module_for("tfbigbatch.schedules", keras).PhasedSchedule(schedules, steps)
    return phased if len(phased.schedules) > 1 else phased.schedules[0]


class RescaledSchedule(Schedule):
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

    fields = ("schedule", "start", "pace", "factor")

    def __init__(self, schedule: Any, start: float = 0.0, pace: float = 1.0, factor: float = 1.0) -> None:
        self.schedule = self._checked("schedule", schedule)
        self.start = arguments.number("start", start, least=0)
        self.pace = arguments.number("pace", pace, above=0)
        self.factor = arguments.number("factor", factor, least=0)

    def __call__(self, step: Any) -> Any:
        return self.factor * self.schedule(self.start + self.pace * self.ops.cast(step, "float32"))


def of_keras(keras: Any, ops: Any, module: str) -> list[type]:
    """The three schedules as classes of a Keras, registered with it, for the module that has them."""
    base, register = keras.optimizers.schedules.LearningRateSchedule, keras.saving.register_keras_serializable
    own = {"keras": keras, "ops": ops, "__module__": module}
    return [
        register("tfbigbatch")(type(each.__name__, (each, base), {**own, "__doc__": each.__doc__}))
        for each in (GradualWarmup, PhasedSchedule, RescaledSchedule)
    ]
