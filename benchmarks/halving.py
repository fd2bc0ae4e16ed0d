"""Recorded searches replayed by schedules of rungs: what each would have cost, and how far it ends from the best.

    python benchmarks/halving.py
    python benchmarks/halving.py --rungs=0.05,0.15,0.3 --keep=6,4,2 [--first=8] [--noise] [--budget=3.2] [--last=loss]
    python benchmarks/halving.py --budget=3
    python benchmarks/halving.py --grid=2.4

64 searches of the benchmark of few steps: eight learning rates each, twice the one before, all trained to their end,
with 100 training losses and the validation. A replay leaves candidates by the code of `tune`. Its regret is how much
worse the winner's validation is than the best of all eight: percent of a perplexity, points of an accuracy or a BLEU.
Near the best are 1% and 0.3 points; the score is the mean regret in these, of at most 10 for a search.

The searches of `python benchmarks/tune --methods="all 16" --curves=results/tune/curves.jsonl` have 16 candidates in the
four numbers that `tune` searches, in its order. A replay begins with the first; its regret is to the best of 16.

--grid tries all schedules of a lattice that cost so many runs, or up to a tenth less, and also chooses without each of
the four files, to replay those on it. Without arguments: a table of schedules and the best of three grids, printed and
in results/tune/halving.md and .json.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import os
import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import harness

from tfbigbatch.errors import InputError
from tfbigbatch.tuning import halving
from tfbigbatch.tuning.halving import Rungs
from tfbigbatch.utils import arguments

FILES = ("few_steps/jax_runs", "few_steps/epochs_13_runs", "few_steps/matrices_runs", "ramp/moments_jax_runs")
FOUR_NUMBERS = os.path.join(harness.ROOT, "results", "tune", "curves.jsonl")
PAGE = os.path.join(harness.ROOT, "results", "tune", "halving")
_CANDIDATES, _ROWS = 8, 100
_MOST = 10.0
# Of the grids: their shares, rungs at most, rows, and the costs for budgets of 2, 3 and 4.
_LATTICE, _RUNGS, _BEST = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5), 4, 6
GRIDS = (1.9, 2.85, 3.8)

_TEXT = """# Schedules of `tune` on recorded searches

As `python benchmarks/halving.py` wrote them; it says what is replayed, and what the figures are. The first three are
those of `tune` for budgets of 2, 3 and 4 runs, with at most the eight candidates that there are. The best rate is
mostly near the middle of the eight: few candidates around it do better here than where less is known.
"""

_TEXT_OF_FOUR = """## Searches of four numbers

The regret of each schedule, on the held-out data, to the best of the 16 candidates: percent of a loss, or points.
"""


@dataclasses.dataclass(frozen=True, eq=False)
class Search:
    """A recorded search.

    Attributes:
      file: that it is from.
      name: task, batch size, method.
      rates: the learning rates of its candidates; () where they differ in more.
      regrets: of each.
      perplexity: True for percent of a perplexity, False for points.
      curves: (step, training loss) of each.
      steps: of a run.
    """

    file: str
    name: str
    rates: Sequence[float]
    regrets: list[float]
    perplexity: bool
    curves: list[list[tuple[int, float]]]
    steps: int = _ROWS

    @property
    def near(self) -> float:
        """The largest regret that is near the best."""
        return 1.0 if self.perplexity else 0.3

    def begins_with(self, count: int) -> list[int]:
        """So many candidates: around the middle of learning rates, or the first ones."""
        start = (len(self.curves) + 1 - count) // 2 if self.rates else 0
        return list(range(start, start + count))

    def score(self, candidate: int) -> float:
        """The regret of a candidate in multiples of `near`, at most 10: useless runs differ by factors."""
        return min(_MOST, self.regrets[candidate] / self.near)


class Schedule(NamedTuple):
    """What is replayed: rungs, the budget that candidates within the noise may use, and what decides at the end."""

    rungs: Rungs
    budget: float = 0.0
    last: str = "validation"

    def __str__(self) -> str:
        counts = ", ".join(map(str, (self.rungs.first, *self.rungs.keep)))
        shares = ", ".join(f"{100 * each:g}" for each in self.rungs.shares) or "100"
        noise = f"; within the noise up to {self.budget:g}" if self.budget else ""
        return f"{counts} at {shares}%{noise}" + "; by loss" * (self.last == "loss")


def searches() -> list[Search]:
    """All recorded searches."""
    found = []
    for file in FILES:
        for line in harness.Lines(os.path.join(harness.ROOT, "results", f"{file}.jsonl.gz")).find(stage="trials"):
            is_perplexity = line["task"] == "ptb"
            # Lower is better; None where a run diverged.
            sign = 1.0 if is_perplexity else -1.0
            values = [math.inf if each is None else sign * each for each in line["validation"]]
            best = min(values)
            regrets = [100.0 * (each / best - 1.0) if is_perplexity else each - best for each in values]
            curves = [
                [(row, math.inf if loss is None else loss) for row, loss in enumerate(curve, 1)]
                for curve in line["curves"]
            ]
            name = f"{line['task']} {line['batch']} {line['method']}"
            found.append(Search(file, name, line["learning_rates"], regrets, is_perplexity, curves))
    return found


def searches_of_four_numbers() -> list[Search]:
    """The recorded searches of 16 candidates of `tune`."""
    found = []
    for line in harness.Lines(FOUR_NUMBERS).find(method="all 16"):
        is_points = line["higher_is_better"]
        sign = -1.0 if is_points else 1.0
        values = [math.inf if (held := each["held_out"]) is None else sign * held for each in line["candidates"]]
        best = min(values)
        regrets = [100.0 * (each - best if is_points else each / best - 1.0) for each in values]
        curves = [
            [(step, math.inf if loss is None else loss) for step, loss in zip(each["steps"], each["losses"])]
            for each in line["candidates"]
        ]
        steps = max(curve[-1][0] for curve in curves)
        name = f"{line['task']}, seed {line['seed']}"
        found.append(Search(FOUR_NUMBERS, name, (), regrets, not is_points, curves, steps))
    return found


def table_of_four_numbers(recorded: Sequence[Search]) -> str:
    """The Markdown table of schedules by searches: the regret of each, and the mean score."""
    schedules = [
        *(Rungs.of_budget(budget) for budget in (2.0, 3.0, 4.0)),
        *(Rungs(count, (), ()) for count in (2, 3, 4)),
        Rungs(5, (0.15, 0.3), (3, 2)),
        Rungs(5, (0.2, 0.5), (4, 2)),
        Rungs(6, (0.15, 0.3), (4, 2)),
        Rungs(8, (0.05, 0.15, 0.3), (6, 4, 2)),
        Rungs(10, (0.05, 0.15, 0.3, 0.4), (6, 4, 2, 1)),
    ]
    lines = []
    for rungs in schedules:
        replays = [(search, *replay(search, Schedule(rungs))) for search in recorded]
        regrets = [f"{search.regrets[winner]:.2f}" for search, winner, _ in replays]
        score = statistics.fmean(search.score(winner) for search, winner, _ in replays)
        lines.append([str(Schedule(rungs)), f"{rungs.cost:.2f}", *regrets, f"{score:.2f}"])
    return harness.table(("candidates", "runs", *(each.name for each in recorded), "score"), lines)


@functools.cache
def losses_at(search: Search, share: float) -> list[list[float]]:
    """Of each candidate, the losses that count at a share of the run."""
    return [halving.loss_before(curve, round(share * search.steps), search.steps) for curve in search.curves]


def replay(search: Search, schedule: Schedule) -> tuple[int, float]:
    """The winner, and the cost in runs; a candidate that diverges costs as much as the others until the next rung."""
    rungs, budget, last = schedule
    alive, kept = search.begins_with(rungs.first), list[int]()
    for number, share in enumerate(rungs.shares):
        spent = halving.cost_of(rungs.first, rungs.shares[: number + 1], [*kept, 0])
        room = rungs.room(number, budget - spent) if budget else 0
        losses = losses_at(search, share)
        alive = halving.staying({each: losses[each] for each in alive}, rungs.keep[number], room=room)
        kept.append(len(alive))
    values = search.regrets if last == "validation" else [statistics.fmean(rows) for rows in losses_at(search, 1.0)]
    return min(alive, key=values.__getitem__), halving.cost_of(rungs.first, rungs.shares, kept)


def figures(recorded: Sequence[Search], schedule: Schedule) -> dict[str, Any]:
    """The figures of a schedule, and the searches that do not end near the best."""
    replays = [(search, *replay(search, schedule)) for search in recorded]
    found: dict[str, Any] = {"schedule": str(schedule), "runs": statistics.fmean(cost for *_, cost in replays)}
    found["best"] = statistics.fmean(search.regrets[winner] == 0.0 for search, winner, _ in replays)
    found["near"] = statistics.fmean(search.regrets[winner] <= search.near for search, winner, _ in replays)
    for name, kind in (("perplexity", True), ("points", False)):
        regrets = [search.regrets[winner] for search, winner, _ in replays if search.perplexity == kind]
        found[name] = [statistics.fmean(regrets), max(regrets)]
    found["score"] = statistics.fmean(search.score(winner) for search, winner, _ in replays)
    found["misses"] = [
        f"{search.name}: {search.rates[winner]:g} for {search.rates[search.regrets.index(0.0)]:g}, "
        f"{search.regrets[winner]:.3g}{'%' if search.perplexity else ' points'}"
        for search, winner, _ in replays
        if search.regrets[winner] > search.near
    ]
    return found


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The Markdown table of some schedules' figures."""
    headings = ("candidates", "runs", "best, %", "near, %", "regret, %", "worst", "regret, points", "worst", "score")
    lines = [
        [row["schedule"], f"{row['runs']:.2f}", f"{100 * row['best']:.0f}", f"{100 * row['near']:.0f}"]
        + [f"{value:.2f}" for value in (*row["perplexity"], *row["points"], row["score"])]
        for row in rows
    ]
    return harness.table(headings, lines)


def of_budget(budget: float) -> Rungs:
    """The rungs of `tune` for a budget, or for the largest below it with no more candidates than were recorded."""
    budgets = (budget - 0.01 * number for number in itertools.count())
    return next(found for each in budgets if (found := Rungs.of_budget(each)).first <= _CANDIDATES)


def grid(recorded: Sequence[Search], most: float) -> tuple[str, list[str]]:
    """The best schedule of a lattice at a cost in words; and a table of the best, and those chosen without each file.

    Raises:
      ValueError: no schedule costs that.
    """
    found: dict[Schedule, list[float]] = {}
    for first, count in itertools.product(range(2, _CANDIDATES + 1), range(1, _RUNGS + 1)):
        for shares in itertools.combinations(_LATTICE, count):
            for keep in itertools.combinations(range(first - 1, 0, -1), count):
                if 0.9 * most <= halving.cost_of(first, shares, keep) <= most + 1e-9:
                    schedule = Schedule(Rungs(first, shares, keep))
                    found[schedule] = [each.score(replay(each, schedule)[0]) for each in recorded]
    if not found:
        raise InputError(f"--grid={most:g}: no schedule of the lattice costs that; expected 1.2 to 5 runs.")

    def without(file: str) -> Schedule:
        others = [number for number, search in enumerate(recorded) if search.file != file]
        return min(found, key=lambda schedule: statistics.fmean(found[schedule][number] for number in others))

    best = sorted(found, key=lambda schedule: statistics.fmean(found[schedule]))[:_BEST]
    chosen = {file: without(file) for file in dict.fromkeys(search.file for search in recorded)}
    left_out = statistics.fmean(found[chosen[search.file]][number] for number, search in enumerate(recorded))
    words = (
        f"The best of {len(found):,} schedules of up to {most:g} runs is {best[0]}, with the score "
        f"{statistics.fmean(found[best[0]]):.2f}; chosen without the file that it is replayed on, {left_out:.2f}."
    )
    details = [f"Without {file}: {schedule}" for file, schedule in chosen.items()]
    return words, [table([figures(recorded, each) for each in best]), *details]


def compared() -> list[Schedule]:
    """The schedules of the table, those of `tune` first."""
    two, three, four = of_budget(2.0), of_budget(3.0), of_budget(4.0)
    others = [
        Rungs(5, (0.05, 0.15, 0.3), (4, 2, 1)),
        Rungs(5, (0.05, 0.15, 0.3, 0.4), (4, 3, 2, 1)),
        Rungs(7, (0.05, 0.15, 0.3), (5, 4, 2)),
        Rungs(7, (0.05, 0.15, 0.3, 0.4), (5, 4, 2, 2)),
        Rungs(8, (0.05, 0.15, 0.3), (6, 4, 2)),
        Rungs(8, (0.05, 0.15, 0.3, 0.4), (6, 5, 3, 2)),
        Rungs(8, (0.15, 0.3), (4, 2)),
        Rungs(8, (0.1, 0.2), (4, 2)),
        Rungs(8, (0.2, 0.4), (5, 3)),
        Rungs(8, (0.15,), (2,)),
        Rungs(8, (0.3,), (2,)),
        Rungs(8, (), ()),
    ]
    noisy = [Schedule(two, 2.0), Schedule(three, 3.0), Schedule(others[1], 2.0)]
    all_of_them = map(Schedule, (two, three, four)), noisy, [Schedule(three, last="loss")], map(Schedule, others)
    return list(dict.fromkeys(itertools.chain(*all_of_them)))


def main() -> None:
    """Prints the figures; writes those of the table."""
    parser = harness.parser(__doc__)
    parser.add_argument("--rungs", type=_numbers(float), default=(), help="shares of a run")
    parser.add_argument("--keep", type=_numbers(int), default=(), help="how many candidates stay at each")
    parser.add_argument("--first", type=int, default=_CANDIDATES, help="candidates at first, the middle ones (8)")
    parser.add_argument("--budget", type=float, help="in runs; without a schedule, that of `tune` for it")
    parser.add_argument("--noise", action="store_true", help="candidates within the noise stay, as the budget allows")
    parser.add_argument("--last", choices=("validation", "loss"), default="validation", help="what decides at the end")
    parser.add_argument("--grid", type=float, metavar="RUNS", help="search for the best schedule at a cost")
    given, recorded = parser.parse_args(), searches()
    is_schedule = bool(given.rungs or given.keep) or given.first != _CANDIDATES
    try:
        if given.grid:
            words, details = grid(recorded, given.grid)
            return print("\n".join([words, *details]))
        if is_schedule or given.budget:
            first = arguments.integer("--first", given.first, least=1, most=_CANDIDATES)
            rungs = Rungs(first, given.rungs, given.keep) if is_schedule else of_budget(given.budget)
            budget = (given.budget or rungs.cost / (1.0 - halving.RESERVE)) if given.noise else 0.0
            row = figures(recorded, Schedule(rungs, budget, given.last))
            return print("\n".join([table([row]), "Not near the best:", *row["misses"]]))
    except InputError as error:
        parser.error(str(error))
    rows = [figures(recorded, each) for each in compared()]
    missed = f"Not near the best with {rows[1]['schedule']}: {'; '.join(rows[1]['misses'])}."
    four = searches_of_four_numbers()
    of_four = [_TEXT_OF_FOUR.strip(), table_of_four_numbers(four)] if four else []
    page = "\n\n".join([_TEXT.strip(), table(rows), missed, *(grid(recorded, cost)[0] for cost in GRIDS), *of_four])
    print(page)
    os.makedirs(os.path.dirname(PAGE), exist_ok=True)
    with open(f"{PAGE}.md", "w", encoding="utf-8") as file:
        file.write(f"{page}\n")
    harness.write(f"{PAGE}.json", schedules=rows)


def _numbers(kind: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    def numbers(text: str) -> tuple[Any, ...]:
        return tuple(map(kind, text.split(",")))

    return numbers


if __name__ == "__main__":
    main()
