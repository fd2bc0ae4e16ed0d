"""Measures a training: the gradient noise scale over its first steps, then the time of a step by batch size."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tfbigbatch.advice import noise, step_times
from tfbigbatch.advice.noise import Moments, NoisePoint
from tfbigbatch.advice.step_times import Step, StepTimes
from tfbigbatch.advice.suggestion import Optimizer
from tfbigbatch.errors import InputError
from tfbigbatch.instruments.instrument import innermost
from tfbigbatch.instruments.probe.model import tensor_variable

Say = Callable[[str], None]
EVERY = 4
"""Steps between two measurements of the noise."""
_MOST_STEPS = 2000
# Of the time: for the noise, and for the speed.
_NOISE_PART, _SPEED_PART = 0.5, 0.3
_SAY_EVERY = 10.0  # seconds


@dataclasses.dataclass(frozen=True)
class Training:
    """A compiled model of Keras 2 or 3 with its data, ready to be measured.

    Attributes:
      model: trained by `fit`.
      keras: its package, `tf_keras` or `keras`.
      noise: a `GradientNoiseScale` of this Keras with a smoothing of 0, every `EVERY` steps: an entry of its history is
        of one measurement.
      fit: trains for at most a number of steps, with callbacks.
      step_at: from the batch size of a replica to a function that makes a step.
      sizes: of a replica, ascending.
      total_steps: of the tuned run; None without a length.
    """

    model: Any
    keras: Any
    noise: Any
    fit: Callable[[int, list[Any]], object]
    step_at: Callable[[int], Step]
    sizes: Iterable[int]
    total_steps: int | None


def measure(training: Training, *, seconds: float, began: float, say: Say) -> tuple[Sequence[NoisePoint], StepTimes]:
    """The noise scale over the first steps, and the times of steps.

    Args:
      training: of the tuned recipe.
      seconds: about how long all may take, tracing included.
      began: when this time began, by `time.perf_counter`.
      say: called with lines of progress.

    Raises:
      ValueError: nothing can be measured, or only one batch size.
    """
    # Not to the end: a learning rate of nearly 0 tells nothing.
    total = _MOST_STEPS if training.total_steps is None else training.total_steps
    steps = max(min(total, 8 * EVERY), min(_MOST_STEPS, total // 2))
    say(f"noise      up to {steps:,} steps of the tuned recipe")
    watch = _Watch(training, _NOISE_PART * seconds, say)
    stop = training.keras.callbacks.LambdaCallback(on_train_batch_end=watch.on_batch_end)
    training.fit(steps, [training.noise, stop])
    watch.check()
    points = noise.points([Moments(each["step"], each["squared_norm"], each["trace"]) for each in watch.history])
    left = max(_SPEED_PART * seconds, seconds - (time.perf_counter() - began))
    times = step_times.measure(training.step_at, training.sizes, seconds=left, say=say)
    if len(times.turns) < 2:
        raise InputError(
            f"Only one batch size ({next(iter(times.turns)):,}) could be timed: {times.stopped}. Expected two or more: "
            "give more seconds, more examples, or a smaller tuned batch."
        )
    return points, times


class _Watch:
    """Ends the noise's part after its time, and finds a recipe that diverges by the running mean of its loss.

    The time counts from the end of the first measurement, as steps are traced until then; tracing shortens it to half
    at most.
    """

    def __init__(self, training: Training, seconds: float, say: Say) -> None:
        self.history = training.noise.history
        self._model, self._seconds, self._say = training.model, seconds, say
        self._began = self._first = self._said = time.perf_counter()
        self._losses: list[float] = []

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        loss = (logs or {}).get("loss")
        if loss is not None:
            self._losses = [*self._losses[:1], float(loss)]
        now = time.perf_counter()
        if now - self._said > _SAY_EVERY:
            self._say(f"noise      step {batch + 1:,}")
            self._said = now
        if len(self.history) <= 1:
            self._first = now
        left = self._seconds - min(self._first - self._began, self._seconds / 2)
        enough = len(self.history) >= 2 * noise.FEWEST
        if now - self._first > (left if enough else 3 * self._seconds):
            self._model.stop_training = True

    def check(self) -> None:
        """Raises ValueError where the mean loss is not finite, or more than twice that of the first step."""
        if self._losses and not self._losses[-1] <= max(self._losses[0], 2.0 * abs(self._losses[0])):
            raise InputError(
                f"not measurable: the recipe diverges: its mean loss is {self._losses[-1]:.3g}, and was "
                f"{self._losses[0]:.3g} in the first step. Lower the learning rate or warm up longer."
            )


def replica_sizes(batch_size: int, largest: int, replicas: int, examples: float = math.inf) -> Iterator[int]:
    """Batches of one replica, ascending, for global batches of powers of two times the tuned one.

    Args:
      batch_size: the tuned one.
      largest: the largest global batch.
      replicas: equal devices.
      examples: the most that a replica's batch can have.
    """
    size, last = batch_size, 0
    while size <= largest:
        own = max(1, size // replicas)
        if own > examples:
            return
        if own > last:
            yield own
        last, size = own, 2 * size


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
