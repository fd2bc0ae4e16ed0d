"""Steps, examples and time to the same loss at each batch size, from the noise scale and the time of a step."""

from __future__ import annotations

import dataclasses
import math

from tfbigbatch.advice.noise import Range
from tfbigbatch.advice.step_times import StepTimes


@dataclasses.dataclass(frozen=True)
class Row:
    """What one batch size is expected to take to the loss of the tuned run, relative to it.

    Attributes:
      batch_size: examples in one step.
      accumulation_steps: micro-batches of a replica in it.
      steps, steps_low, steps_high: factor of the tuned run's steps, by the critical batch and the ends of its range.
      examples: factor of the tuned run's examples.
      step_seconds: of one step.
      time, time_low, time_high: factor of the tuned run's time.
      run_steps: steps in the same epochs; None for a recipe without a length.
    """

    batch_size: int
    accumulation_steps: int
    steps: float
    steps_low: float
    steps_high: float
    examples: float
    step_seconds: float
    time: float
    time_low: float
    time_high: float
    run_steps: int | None


def steps_factor(critical: float, batch_size: float, tuned_batch: float) -> float:
    """Steps to the same loss at `batch_size` relative to those at `tuned_batch`.

    McCandlish et al. 2018 (arXiv:1812.06162), equation 2.11, with S(B) = S_min (1 + N / B):

        (1 + N / batch_size) / (1 + N / tuned_batch)

    Args:
      critical: N, the critical batch in examples; may be infinite.
    """
    if math.isinf(critical):
        return tuned_batch / batch_size
    return (1.0 + critical / batch_size) / (1.0 + critical / tuned_batch)


def rows(
    batch_sizes: list[int],
    *,
    critical: Range,
    times: StepTimes,
    tuned_batch: int,
    replicas: int,
    examples: float | None,
) -> list[Row]:
    """A row for each batch size.

    Args:
      batch_sizes: in examples.
      critical: the critical batch of the run.
      times: of a replica's steps.
      tuned_batch: the batch size of the tuned recipe.
      replicas: planned for, at every batch size.
      examples: that the tuned run reads; None without a length.
    """
    base, _ = times.planned(tuned_batch, replicas)
    found = []
    for batch_size in batch_sizes:
        seconds, accumulation = times.planned(batch_size, replicas)
        # A larger noise scale saves more steps.
        steps, most, least = (
            steps_factor(each, batch_size, tuned_batch) for each in (critical.value, critical.low, critical.high)
        )
        found.append(
            Row(
                batch_size=batch_size,
                accumulation_steps=accumulation,
                steps=steps,
                steps_low=min(least, most),
                steps_high=max(least, most),
                examples=steps * batch_size / tuned_batch,
                step_seconds=seconds,
                time=steps * seconds / base,
                time_low=min(least, most) * seconds / base,
                time_high=max(least, most) * seconds / base,
                run_steps=None if examples is None else max(1, round(examples / batch_size)),
            )
        )
    return found
