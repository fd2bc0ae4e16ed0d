"""The largest batch of a replica that fits its memory, and the accumulation that reaches the global batch with it."""

import typing


class Suggestion(typing.NamedTuple):
    """A batch that fits.

    Attributes:
      micro_batch: examples of a replica in one pass; 0 where not even one fits.
      accumulation_steps: with it that reach the global batch.
      batch_size: the global batch that these reach.
    """

    micro_batch: int
    accumulation_steps: int
    batch_size: int


def largest(fits, start, most, steps=6):
    """The largest number in [1, most] at which `fits`, as near as `steps` trials tell; 0 where none was found.

    Doubles or halves from `start` until both sides are known, then bisects, down to a sixteenth of what fits.

    Args:
      fits: function of a number to bool, true below some number and false above it.
      start, most: integers from 1 on.
      steps: trials at most.
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


def suggestion(micro_batch, batch_size, replicas):
    """The `Suggestion` that reaches a global batch with micro-batches of at most `micro_batch`.

    The accumulation is the smallest by which a replica's examples divide.
    """
    per_replica = batch_size // replicas
    if micro_batch < 1 or per_replica < 1:
        return Suggestion(0, 0, 0)
    accumulation = next(steps for steps in range(1, per_replica + 1) if _fits_in(per_replica, steps, micro_batch))
    return Suggestion(per_replica // accumulation, accumulation, per_replica * replicas)


def _fits_in(per_replica, accumulation, micro_batch):
    """Whether a replica's examples divide by `accumulation` into micro-batches of at most `micro_batch`."""
    return per_replica % accumulation == 0 and per_replica // accumulation <= micro_batch
