"""Successive halving: which of several runs are continued at each rung, judged by the loss until then.

Jamieson and Talwalkar 2016, arXiv:1502.07943. A run's learning rate falls to the end of its own length from its first
step on, so that a run that stays is continued, not begun again. `benchmarks/halving.py` replays recorded searches; the
defaults are from there (results/tune/halving.md).
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence

from tfbigbatch.errors import InputError
from tfbigbatch.utils import arguments

SHARES = (0.05, 0.15, 0.3, 0.4)
"""The rungs, as shares of a run."""
STAY = (0.75, 0.6, 0.35, 0.25)
"""The shares of all candidates that stay at each of them."""
WINDOW = 0.04
"""The loss at a rung is the mean over this share of a run before it."""
RESERVE = 0.05
"""The share of a budget that is kept for candidates within the noise, and for those beyond the end of a range."""
NOISE = 2.0
"""Two losses are within the noise where they differ by less than so many standard errors of their difference."""


@dataclasses.dataclass(frozen=True)
class Rungs:
    """The rungs of a search.

    Attributes:
      first: number of candidates at the beginning.
      shares: rising shares of a run in (0, 1), one for each rung; () for a search that trains all to their end.
      keep: how many candidates stay at each, not rising.

    Raises:
      ValueError: a number is out of range, or the two have different lengths.
    """

    first: int
    shares: tuple[float, ...] = SHARES
    keep: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        arguments.integer("first", self.first, least=1, owner="Rungs")
        shares = check_shares(self.shares)
        keep = tuple(arguments.integers("keep", self.keep, least=1, owner="Rungs"))
        if len(keep) != len(shares) or any(after > before for before, after in zip((self.first, *keep), keep)):
            raise InputError(
                f"Rungs: keep={keep}, shares={shares}, first={self.first}; expected for each share how many stay, none "
                "more than before, as keep=(6, 4, 2) with first=8."
            )

    @property
    def cost(self) -> float:
        """The steps of all candidates, in runs."""
        return cost_of(self.first, self.shares, self.keep)

    def rest(self, number: int) -> float:
        """The cost in runs from rung `number`, counted from 0, to the end, without candidates of `room`."""
        later = number + 1
        return cost_of(self.keep[number], self.shares[later:], self.keep[later:], done=self.shares[number])

    def room(self, number: int, left: float) -> int:
        """How many more than `keep` may stay at a rung, until the next.

        Args:
          number: of the rung, from 0.
          left: of the budget, in runs, at the rung.
        """
        until_next = (*self.shares, 1.0)[number + 1] - self.shares[number]
        return max(0, math.floor((left - self.rest(number)) / until_next + 1e-9))

    @classmethod
    def of_budget(cls, budget: float, shares: Sequence[float] = SHARES, stay: Sequence[float] = STAY) -> Rungs:
        """The rungs of as many candidates as a budget pays, with a `RESERVE`.

        Args:
          budget: in runs, 1 or more.
          shares: see `Rungs`.
          stay: the share of all candidates that stays at each.

        Raises:
          ValueError: the budget is below one run, or a share is out of range.
        """
        budget = arguments.number("budget", budget, least=1.0, owner="tune", expected="1 or more runs")
        shares = check_shares(shares)
        stay = [arguments.number("stay", each, above=0.0, most=1.0, owner="tune") for each in stay]
        if len(stay) != len(shares):
            raise InputError(f"tune: stay={stay}, shares={list(shares)}; expected one share that stays for each rung.")
        found = cls(1, shares, (1,) * len(shares))
        for first in range(2, math.floor(budget / min(shares, default=1.0)) + 1):
            keep: list[int] = []
            for each in stay:
                keep.append(min([first, *keep[-1:], max(1, round(each * first))]))
            if cost_of(first, shares, keep) <= (1.0 - RESERVE) * budget + 1e-9:
                found = cls(first, shares, tuple(keep))
        return found


def check_shares(shares: Sequence[float]) -> tuple[float, ...]:
    """Shares of a run as Python's numbers.

    Raises:
      ValueError: they do not rise, or one is not between 0 and 1.
    """
    found = tuple(
        arguments.number("rungs", each, above=0.0, below=1.0, owner="tune") for each in arguments.items("rungs", shares)
    )
    if list(found) != sorted(set(found)):
        raise InputError(f"tune: rungs={found}; expected rising shares of a run, as {SHARES}.")
    return found


def cost_of(first: int, shares: Sequence[float], keep: Sequence[int], *, done: float = 0.0) -> float:
    """The cost in runs of `first` candidates, which have each made the share `done` of a run, through some rungs."""
    cost, count = 0.0, first
    for share, kept in zip((*shares, 1.0), (*keep, 0)):
        cost += count * (share - done)
        done, count = share, kept
    return cost


def loss_before(curve: Sequence[tuple[int, float]], step: int, total_steps: int) -> list[float]:
    """The losses that count at a step of a run: of the rows in the `WINDOW` before it; [inf] where one is not finite.

    Args:
      curve: (step, training loss) of each row, the mean since the row before; rising.
      step: of the rung.
      total_steps: of the run.
    """
    begin = step - max(1.0, WINDOW * total_steps)
    found = [loss for at, loss in curve if begin < at <= step] or [loss for at, loss in curve if at <= step][-1:]
    return found if found and all(map(math.isfinite, found)) else [math.inf]


def noise(one: Sequence[float], other: Sequence[float]) -> float:
    """The standard error of the difference of two runs' mean losses; 0 for one row. Rows are of the same examples."""
    differences = [a - b for a, b in zip(one, other)] if len(one) == len(other) else []
    if len(differences) < 2 or not all(map(math.isfinite, differences)):
        return 0.0
    return statistics.stdev(differences) / math.sqrt(len(differences))


def staying(losses: Mapping[int, Sequence[float]], keep: int, *, room: int = 0) -> list[int]:
    """The candidates that stay at a rung, best first.

    Args:
      losses: for each candidate, those of `loss_before`.
      keep: how many stay; of those that diverged none.
      room: how many more may stay, where their difference from the last of the others is within the noise.
    """
    means = {number: math.fsum(rows) / len(rows) for number, rows in losses.items()}
    order = sorted((number for number in losses if math.isfinite(means[number])), key=lambda each: (means[each], each))
    kept = order[:keep]
    for number in order[keep : keep + room]:
        last = kept[keep - 1]
        if means[number] - means[last] >= NOISE * noise(losses[number], losses[last]):
            break
        kept.append(number)
    return kept
