"""Measures a training: the gradient noise scale over its first steps, then the time of a step by batch size."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
import tensorflow as tf

from tfbigbatch import instruments
from tfbigbatch.errors import InputError
from tfbigbatch.scaling.recipe import Recipe
from tfbigbatch.tuning import noise
from tfbigbatch.tuning.advice import Advice, optimizer_of

Say = Callable[[str], None]
Step = Callable[[], None]
"""Makes one training step, and returns when it is done."""
Train = Callable[[int, instruments.GradientNoiseScale, Callable[[float], bool]], None]
"""Trains so many steps while an instrument measures; ends where a function of a step's loss says that it is over."""
# Steps between two measurements of the noise, and steps at most.
_EVERY, _MOST_STEPS = 4, 2000
# Of the time: for the noise, and at least for the speed.
_NOISE_PART, _SPEED_PART = 0.5, 0.3
# Turns over all batch sizes, if the time suffices and at least; sizes at least; seconds and steps of a size in a turn;
# different batches in them, since those of a text differ in length.
_TURNS, _FEWEST_TURNS, _FEWEST_SIZES, _VISIT, _STEPS, _BATCHES = 9, 3, 3, 0.15, 50, 4


def measured(
    title: str,
    model: keras.Model,
    tuned: Recipe,
    dataset_size: int,
    *,
    gradients: Mapping[str, Any],
    train: Train,
    step_at: Callable[[int, int], Step],
    largest: int,
    seconds: float,
    began: float,
    say: Say,
    experiment: str | None = None,
) -> Advice:
    """The advice on a tuned recipe: its noise scale over the first steps, and the times of steps.

    Args:
      title: of what is measured.
      model: compiled.
      tuned: its recipe.
      dataset_size: examples in an epoch.
      gradients: arguments of `GradientNoiseScale`: where its gradients are from.
      train: trains the recipe.
      step_at: function of a batch size and a number of batches, read before, that returns the step to time.
      largest: the largest batch size there can be.
      seconds: about how long all may take.
      began: when this time began, by `time.perf_counter`.
      say: called with lines of progress.
      experiment: see `Advice`.

    Raises:
      ValueError: nothing can be measured, or only one batch size.
    """
    # Not to the end: a learning rate of nearly 0 tells nothing.
    total = _MOST_STEPS if tuned.epochs is None else tuned.total_steps(dataset_size)
    steps = max(min(total, 8 * _EVERY), min(_MOST_STEPS, total // 2))
    say(f"noise      up to {steps:,} steps of the tuned recipe")
    scale = instruments.GradientNoiseScale(**gradients, when=_EVERY, smoothing=0.0)
    watch = _Watch(scale, _NOISE_PART * seconds)
    train(steps, scale, watch.is_over)
    watch.check()
    points = noise.points(scale.history)
    left = max(_SPEED_PART * seconds, seconds - (time.perf_counter() - began))
    sizes = [tuned.batch_size * 2**power for power in range((largest // tuned.batch_size).bit_length())]
    turns, stopped = step_times(
        lambda size: step_at(size, min(_BATCHES, max(1, largest // size))), sizes, seconds=left, say=say
    )
    if len(turns) < 2:
        raise InputError(
            f"Only one batch size ({next(iter(turns)):,}) could be timed: {stopped}. Expected two or more: give more "
            "seconds, more examples, or a smaller tuned batch."
        )
    taken = time.perf_counter() - began
    return Advice(title, tuned, optimizer_of(model), dataset_size, points, turns, stopped, taken, experiment)


class _Watch:
    """Ends the training of the noise's measurement when its time is over, which begins with the first measurement:
    steps are traced until then."""

    def __init__(self, scale: instruments.GradientNoiseScale, seconds: float) -> None:
        self._scale = scale
        self._seconds = seconds
        self._losses: list[float] = []
        self._began = time.perf_counter()

    def is_over(self, loss: float) -> bool:
        """Called after each step with its loss; True if there is to be no further one."""
        self._losses.append(loss)
        if len(self._scale.history) <= 1:
            self._began = time.perf_counter()
        enough = len(self._scale.history) >= 2 * noise.FEWEST
        return time.perf_counter() - self._began > (1 if enough else 3) * self._seconds

    def check(self) -> None:
        """Raises ValueError if the loss is not finite in the end, or more than twice that of the beginning."""
        # Means: the loss of a small batch may by itself be twice that of another.
        count = max(1, min(_EVERY, len(self._losses) // 2))
        first, last = (math.fsum(losses) / count for losses in (self._losses[:count], self._losses[-count:]))
        if not last <= max(first, 2.0 * abs(first)):
            raise InputError(
                f"not measurable: the recipe diverges: its loss is {last:.3g}, and was {first:.3g} in the first steps. "
                "Lower the learning rate or warm up longer."
            )


def step_times(
    step_at: Callable[[int], Step], sizes: Iterable[int], *, seconds: float, say: Say
) -> tuple[dict[int, list[float]], str]:
    """Times steps at growing batch sizes, all in turn, so that other work on the machine slows all of them.

    Args:
      step_at: from a batch size to its step.
      sizes: ascending. The first three are measured, larger ones while steps are short and half of the time is left.
      seconds: for all.
      say: called with a line for each size.

    Returns:
      (batch size to the mean seconds of a step in each turn, why no larger batch was measured).
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
    return turns, stopped
