"""Measures a training: the gradient noise scale over its first steps, then the time of a step by batch size."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfbigbatch.advice import noise
from tfbigbatch.advice.noise import Moments, NoisePoint
from tfbigbatch.advice.suggestion import Optimizer
from tfbigbatch.errors import InputError
from tfbigbatch.instruments.instrument import innermost
from tfbigbatch.instruments.probe.model import tensor_variable

Say = Callable[[str], None]
Step = Callable[[], None]
"""Makes one training step, and returns when it is done."""
EVERY = 4
"""Steps between two measurements of the noise."""
_MOST_STEPS = 2000
# Of the time: for the noise, and at least for the speed.
_NOISE_PART, _SPEED_PART = 0.5, 0.3
# Turns over all batch sizes, if the time suffices and at least; sizes at least; seconds and steps of a size in a turn.
_TURNS, _FEWEST_TURNS, _FEWEST_SIZES, _VISIT, _STEPS = 9, 3, 3, 0.15, 50


@dataclasses.dataclass(frozen=True)
class Training:
    """A compiled model of Keras 2 or 3 with its data, ready to be measured.

    Attributes:
      model: trained by `fit`.
      keras: its package, `tf_keras` or `keras`.
      noise: a `GradientNoiseScale` of this Keras with a smoothing of 0, every `EVERY` steps: an entry of its history is
        of one measurement.
      fit: trains for at most a number of steps, with callbacks.
      step_at: from a batch size to a function that makes a step.
      batch_size: the tuned one.
      largest: the largest batch size there can be.
      total_steps: of the tuned run; None without a length.
    """

    model: Any
    keras: Any
    noise: Any
    fit: Callable[[int, list[Any]], object]
    step_at: Callable[[int], Step]
    batch_size: int
    largest: int
    total_steps: int | None


@dataclasses.dataclass(frozen=True)
class StepTimes:
    """Seconds of a step at each batch size.

    Attributes:
      turns: batch size to the mean seconds of a step in each turn.
      stopped: why no larger batch was measured.
    """

    turns: Mapping[int, Sequence[float]]
    stopped: str

    def planned(self, batch_size: int) -> tuple[float, int]:
        """(seconds, accumulation steps) of a step at a batch size: the fastest micro-batch of those measured."""
        fitting = [size for size in self.turns if size <= batch_size] or [min(self.turns)]
        return min((-(-batch_size // n) * statistics.median(self.turns[n]), -(-batch_size // n)) for n in fitting)


def measure(training: Training, *, seconds: float, began: float, say: Say) -> tuple[Sequence[NoisePoint], StepTimes]:
    """The noise scale over the first steps, and the times of steps.

    Args:
      training: of the tuned recipe.
      seconds: about how long all may take.
      began: when this time began, by `time.perf_counter`.
      say: called with lines of progress.

    Raises:
      ValueError: nothing can be measured, or only one batch size.
    """
    # Not to the end: a learning rate of nearly 0 tells nothing.
    total = _MOST_STEPS if training.total_steps is None else training.total_steps
    steps = max(min(total, 8 * EVERY), min(_MOST_STEPS, total // 2))
    say(f"noise      up to {steps:,} steps of the tuned recipe")
    moments = _moments(training, steps, _NOISE_PART * seconds)
    points = noise.points(moments)
    left = max(_SPEED_PART * seconds, seconds - (time.perf_counter() - began))
    doublings = range((training.largest // training.batch_size).bit_length())
    sizes = [training.batch_size * 2**power for power in doublings]
    times = step_times(training.step_at, sizes, seconds=left, say=say)
    if len(times.turns) < 2:
        raise InputError(
            f"Only one batch size ({next(iter(times.turns)):,}) could be timed: {times.stopped}. Expected two or more: "
            "give more seconds, more examples, or a smaller tuned batch."
        )
    return points, times


def _moments(training: Training, steps: int, seconds: float) -> list[Moments]:
    """Trains until the time is over, which begins with the first measurement: steps are traced until then.

    Raises:
      ValueError: the mean loss is not finite in the end, or more than twice that of the first step.
    """
    history, losses, began = training.noise.history, [], [time.perf_counter()]

    def on_batch_end(batch: int, logs: Any = None) -> None:
        if logs and "loss" in logs:
            losses.append(float(logs["loss"]))
        if len(history) <= 1:
            began[0] = time.perf_counter()
        enough = len(history) >= 2 * noise.FEWEST
        if time.perf_counter() - began[0] > (1 if enough else 3) * seconds:
            training.model.stop_training = True

    training.fit(steps, [training.noise, training.keras.callbacks.LambdaCallback(on_train_batch_end=on_batch_end)])
    if losses and not losses[-1] <= max(losses[0], 2.0 * abs(losses[0])):
        raise InputError(
            f"not measurable: the recipe diverges: its mean loss is {losses[-1]:.3g}, and was {losses[0]:.3g} in the "
            "first step. Lower the learning rate or warm up longer."
        )
    return [Moments(each["step"], each["squared_norm"], each["trace"]) for each in history]


def step_times(step_at: Callable[[int], Step], sizes: Iterable[int], *, seconds: float, say: Say) -> StepTimes:
    """Times steps at growing batch sizes, all in turn, so that other work on the machine slows all of them.

    Args:
      step_at: from a batch size to its step.
      sizes: ascending. The first three are measured, larger ones while steps are short and half of the time is left.
      seconds: for all.
      say: called with a line for each size.
    """
    began = time.perf_counter()
    steps: dict[int, Step] = {}
    single: dict[int, float] = {}
    stopped = "the next would be larger than the dataset"
    for size in sizes:
        long = time.perf_counter() - began > seconds / 2 or max(single.values(), default=0.0) > seconds / 16
        if len(steps) >= _FEWEST_SIZES and long:
            stopped = f"the next would take longer than the {seconds:.0f} s for this part"
            break
        try:
            step = step_at(size)
            step()  # It is traced.
            started = time.perf_counter()
            step()
        except (MemoryError, tf.errors.ResourceExhaustedError):
            if not steps:
                raise
            stopped = f"{size:,} took more memory than there is"
            break
        single[size], steps[size] = time.perf_counter() - started, step
        say(f"speed      batch {size:,}: {single[size] * 1000:,.1f} ms a step")
    turns: dict[int, list[float]] = {size: [] for size in steps}
    for turn in range(_TURNS):
        if turn >= _FEWEST_TURNS and time.perf_counter() > began + seconds:
            break
        for size, step in steps.items():
            count = max(1, min(_STEPS, int(_VISIT / max(single[size], 1e-6))))
            started = time.perf_counter()
            for _ in range(count):
                step()
            turns[size].append((time.perf_counter() - started) / count)
    return StepTimes(turns, stopped)


def traced_step(model: Any, iterator: Any) -> Step:
    """A function that makes a training step and returns when it is done; traced for the next batch's size alone."""
    model.make_train_function(force=True)
    function, counter = model.train_function, tensor_variable(innermost(model.optimizer).iterations)

    def step() -> None:
        function(iterator)
        counter.numpy()

    return step


def optimizer_of(model: Any) -> Optimizer:
    """The properties of a compiled model that the advice depends on."""
    optimizer = innermost(model.optimizer)
    clips = any(getattr(optimizer, name, None) for name in ("global_clipnorm", "clipnorm", "clipvalue"))
    name = type(optimizer).__name__.lower()
    return Optimizer.of("momentum" if name == "sgd" else name, clips=clips, layers=model._flatten_layers())
