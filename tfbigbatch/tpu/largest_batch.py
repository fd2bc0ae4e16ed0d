"""Search for the largest micro-batch that fits a replica's memory, and the accumulation for a global batch."""

from __future__ import annotations

import typing
from collections.abc import Callable


class Suggestion(typing.NamedTuple):
    """A batch that fits.

    Attributes:
      micro_batch: examples per replica in one pass; 0 if not even one fits.
      accumulation_steps: micro-batches per step.
      batch_size: the resulting global batch.
    """

    micro_batch: int
    accumulation_steps: int
    batch_size: int


def largest(fits: Callable[[int], bool], start: int, most: int, steps: int = 6) -> int:
    """The largest number in [1, most] that fits, as far as `steps` trials can find it; 0 if none was found.

    Doubles or halves from `start` until both sides are known, then bisects to a precision of a sixteenth.

    Args:
      fits: whether a number fits; true up to some number and false above it.
      start: first trial, 1 or more.
      most: upper limit, 1 or more.
      steps: maximum number of trials.
    """
    good, bad, trial = 0, most + 1, min(start, most)
    for _ in range(steps):
        if fits(trial):
            good = trial
        else:
            bad = trial
        if bad - good <= max(1, good // 16):
            break
        if bad == most + 1:
            trial = min(2 * good, most)
        elif good == 0:
            trial = bad // 2
        else:
            trial = (good + bad) // 2
        if trial < 1:
            break
    return good


def suggestion(micro_batch: int, batch_size: int, replicas: int) -> Suggestion:
    """The smallest accumulation with which micro-batches of at most `micro_batch` make a global batch."""
    per_replica = batch_size // replicas
    if micro_batch < 1 or per_replica < 1:
        return Suggestion(0, 0, 0)
    accumulation = next(steps for steps in range(1, per_replica + 1) if _fits_in(per_replica, steps, micro_batch))
    return Suggestion(per_replica // accumulation, accumulation, per_replica * replicas)


def _fits_in(per_replica: int, accumulation: int, micro_batch: int) -> bool:
    """Whether a replica's examples divide by `accumulation` into micro-batches of at most `micro_batch`."""
    return per_replica % accumulation == 0 and per_replica // accumulation <= micro_batch
