"""The critical batch from branches: losses after equal examples at several batch sizes (arXiv:2505.23971)."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Mapping, Sequence

from tfbigbatch.errors import InputError
from tfbigbatch.utils import arguments

# Student's t, two-sided 90%, for 1, 2, ... degrees of freedom; beyond them the normal distribution's is near enough.
_T90 = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771, 1.761, 1.753)
_T90_BEYOND = 1.70


@dataclasses.dataclass(frozen=True)
class CriticalBatch:
    """The largest batch that loses less than a tolerance, with a 90% interval.

    Attributes:
      estimate: in examples; the smallest batch where every larger one loses more, infinity where none does.
      low, high: the interval; from the smallest batch to infinity where one seed says nothing about the spread.
      excess: for each batch size, the mean loss above that of the smallest batch; nats.
      error: the standard error of each mean in `excess`; NaN with one seed.
    """

    estimate: float
    low: float
    high: float
    excess: Mapping[int, float]
    error: float


def critical_batch(losses: Mapping[int, Sequence[float]], *, tolerance: float) -> CriticalBatch:
    """The critical batch of branches from one checkpoint that were trained on equally many examples.

    The mean loss above the smallest batch's is made to rise with the batch (isotonic regression, since a dip is noise),
    and crosses `tolerance` at the critical batch, interpolated in the logarithm of the batch. The seeds are paired:
    seed s of a batch is compared with seed s of the smallest. The interval has the crossings of the curve moved up and
    down by t times the standard error of a mean, with one variance for all batch sizes.

    Args:
      losses: for each batch size, the loss after the branch for each seed, in the same order; a loss that is not
        finite is a branch that diverged.
      tolerance: what may be lost, in the unit of the losses; above 0.

    Raises:
      ValueError: there are fewer than two batch sizes, their seeds differ, or the smallest diverged.
    """
    tolerance = arguments.number("tolerance", tolerance, above=0, owner="critical_batch")
    try:
        losses = {size: [float(loss) for loss in of_seeds] for size, of_seeds in sorted(losses.items())}
    except (AttributeError, TypeError, ValueError):
        raise InputError(
            f"critical_batch: losses={losses!r}; expected numbers by batch size, as {{32: [0.1, 0.2], ...}}."
        ) from None
    sizes = arguments.integers("losses", list(losses), least=1, owner="critical_batch")
    seeds = {len(losses[size]) for size in sizes}
    if len(sizes) < 2 or len(seeds) != 1 or seeds == {0}:
        raise InputError(
            f"critical_batch: losses of {[(size, len(losses[size])) for size in sizes]} (batch, seeds); expected two "
            "batch sizes or more, with the same seeds."
        )
    if not all(math.isfinite(loss) for loss in losses[sizes[0]]):
        raise InputError(
            f"critical_batch: the smallest batch, {sizes[0]}, has losses {list(losses[sizes[0]])}: nothing can be "
            "compared with a branch that diverged. Lower its learning rate."
        )
    differences = {size: [a - b for a, b in zip(losses[size], losses[sizes[0]])] for size in sizes}
    # A diverged branch has lost all.
    excess = {
        size: statistics.fmean(each) if all(map(math.isfinite, each)) else math.inf
        for size, each in differences.items()
    }
    error, freedom = _standard_error([each for size, each in differences.items() if size > sizes[0]])
    means = [excess[size] for size in sizes]
    estimate = _crossing(sizes, means, tolerance)
    low, high = float(sizes[0]), math.inf
    if freedom:
        margin = error * (_T90[freedom - 1] if freedom <= len(_T90) else _T90_BEYOND)
        low, high = (
            _crossing(sizes, [0.0, *(mean + sign * margin for mean in means[1:])], tolerance) for sign in (1, -1)
        )
    return CriticalBatch(estimate, low, high, excess, error)


def _standard_error(differences: Sequence[Sequence[float]]) -> tuple[float, int]:
    """The standard error of a mean over seeds, with one variance for all batch sizes, and its degrees of freedom."""
    finite = [each for each in differences if all(map(math.isfinite, each)) and len(each) > 1]
    if not finite:
        return math.nan, 0
    variance = statistics.fmean(statistics.variance(each) for each in finite)
    # The batch sizes share the smallest one's noise: their degrees of freedom are those of the seeds alone.
    return math.sqrt(variance / len(finite[0])), len(finite[0]) - 1


def _crossing(sizes: Sequence[int], excess: Sequence[float], tolerance: float) -> float:
    """The batch at which the excess, made to rise, crosses the tolerance."""
    rising = isotonic(excess)
    # The smallest batch is what the others are compared with.
    rising[0] = min(rising[0], 0.0)
    for (small, large), (before, after) in zip(itertools.pairwise(sizes), itertools.pairwise(rising)):
        if after > tolerance:
            fraction = 0.0 if math.isinf(after) else max(0.0, (tolerance - before) / (after - before))
            return small * (large / small) ** fraction
    return math.inf


def isotonic(values: Sequence[float]) -> list[float]:
    """The rising sequence that is nearest to `values` in squares: pools of neighbours that fall have their mean."""
    pools: list[list[float]] = []
    for value in values:
        pools.append([value])
        while len(pools) > 1 and statistics.fmean(pools[-2]) > statistics.fmean(pools[-1]):
            last = pools.pop()
            pools[-1].extend(last)
    return [statistics.fmean(pool) for pool in pools for _ in pool]
