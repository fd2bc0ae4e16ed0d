"""The choice of the next learning rate: a wide range, then beyond its end or within, until the best lies inside."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

# Trials beyond the budget, where the best is still at an end of the range.
EXTRA = 3


def next_learning_rates(first: Sequence[float], results: Mapping[float, float], budget: int) -> list[float]:
    """The learning rates to try next; none when the search has ended.

    The first ones come first, from the middle out, as many as the budget has room for. Then one at a time: where the
    best is at an end of the range, the next lies beyond it, by the ratio of the two rates at that end; else it is the
    geometric mean of the best and a neighbour, in the wider gap, or towards the better neighbour where they are equally
    wide. Ends when `budget` rates were tried and the best lies inside, or `EXTRA` more.

    Args:
      first: the learning rates of the wide range, rising.
      results: for each rate that was tried, its loss; lower is better, inf for a diverged run.
      budget: number of trials.
    """
    from_the_middle = sorted(first, key=lambda rate: abs(first.index(rate) - (len(first) - 1) / 2))[:budget]
    missing = [rate for rate in from_the_middle if rate not in results]
    if missing:
        return missing
    rates = sorted(results)
    best, at_end = best_learning_rate(results), is_at_end(results)
    if len(rates) < 2 or len(rates) >= budget + (EXTRA if at_end and budget >= len(first) else 0):
        return []
    index = rates.index(best)
    if at_end:
        neighbour = rates[1] if index == 0 else rates[-2]
        return [_rounded(best * best / neighbour)]
    below, above = rates[index - 1], rates[index + 1]
    # How many times wider the gap below is; rounded rates make equal ones differ a little.
    wider = math.log(best / below) / math.log(above / best)
    if 0.8 < wider < 1.25:
        neighbour = below if results[below] <= results[above] else above
    else:
        neighbour = below if wider > 1.0 else above
    return [_rounded(math.sqrt(best * neighbour))]


def best_learning_rate(results: Mapping[float, float]) -> float:
    """The rate of the lowest loss; the lowest of several."""
    return min(sorted(results), key=lambda rate: results[rate])


def is_at_end(results: Mapping[float, float]) -> bool:
    """True if the best rate is the lowest or the highest of those tried."""
    return best_learning_rate(results) in (min(results), max(results))


def _rounded(rate: float) -> float:
    """To two digits: names of folders and rows hold it."""
    return float(f"{rate:.2g}")
