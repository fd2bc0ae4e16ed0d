"""The search of `tune`: candidates that are trained to a rung, compared, and continued or left.

A candidate is a run of the trainer in a folder of its own, paused by a checkpoint; it continues as any run resumes, to
the same bits as without a pause. All decisions follow from what the folders hold, so that a search that was stopped
begins again and takes the same turns, without training anything twice.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import itertools
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ml_collections import ConfigDict
from rich import progress

from tfbigbatch.errors import InputError, Preempted, first_line
from tfbigbatch.run_directory.directory import DIVERGED, DONE, RunDirectory
from tfbigbatch.run_directory.metric import Metric
from tfbigbatch.run_directory.metrics_log import read_rows
from tfbigbatch.tuning import halving
from tfbigbatch.tuning.candidates import Point, SearchSpace
from tfbigbatch.tuning.halving import Rungs
from tfbigbatch.utils.signals import collecting_signals

Advance = Callable[..., Any]
"""Trains a candidate from where its folder holds it, called with `config`, `model_dir` and `stop_after`, the step to
pause at, None for its end. `train.run` is one; another trainer of candidates is another such function."""
Say = Callable[[str], None]

# Rows of a candidate's curve.
_ROWS = 100
# The first candidate trains for so long before the others begin: mistakes end here, and the time is known.
_PILOT, _PILOT_ROWS = 0.02, 3
# Calls that may be lost with their worker, one after another without a saved step.
_LOST = 2
# Candidates that may widen the range at a rung.
_WIDER = 2
_POLL = 0.2  # seconds


def row_steps(total_steps: int) -> int:
    """Steps of a row of a candidate's curve."""
    return max(1, total_steps // _ROWS)


def rungs_of(budget: float, shares: Sequence[float], stay: Sequence[float], total_steps: int) -> Rungs:
    """`Rungs.of_budget` with each rung at the end of a row: the rows are then those of a run without a pause.

    Of rungs that a short run has at the same step the last one stays.
    """
    planned, steps = Rungs.of_budget(budget, shares, stay), row_steps(total_steps)
    ends = {max(1, round(share * total_steps / steps)) * steps: kept for share, kept in zip(planned.shares, stay)}
    ends = {step: kept for step, kept in ends.items() if step < total_steps}
    return Rungs.of_budget(budget, [step / total_steps for step in ends], list(ends.values()))


class Candidate:
    """One candidate and its run, as its folder holds it.

    Attributes:
      number: from 0, in the order of their making.
      point: what it is, in numbers without dimensions.
      config: of its run.
      directory: its run directory.
    """

    def __init__(self, number: int, point: Point, config: ConfigDict, directory: str) -> None:
        self.number = number
        self.point = point
        self.config = config
        self.directory = directory
        self.read()

    def read(self) -> None:
        """Reads the folder: after a part of the run, and before the folder goes."""
        folder = RunDirectory(self.directory)
        rows = read_rows(folder.metrics)
        self._status = folder.status()
        self.curve: list[tuple[int, float]] = [
            (row["step"], math.nan if row.get("loss") is None else row["loss"])
            for row in rows
            if row["split"] == "train"
        ]
        self.evaluations: list[dict[str, float]] = [row for row in rows if row["split"] == "eval"]

    @property
    def steps(self) -> int:
        """Steps that it was trained for."""
        return int(self._status.get("step", 0))

    @property
    def diverged(self) -> bool:
        """True if its loss or a weight was not finite."""
        return self._status.get("status") == DIVERGED

    @property
    def is_done(self) -> bool:
        """True if it was trained to its end."""
        return self._status.get("status") == DONE

    @property
    def metrics(self) -> dict[str, float]:
        """Of the evaluation at its end; {} before."""
        return dict(self._status.get("metrics", {})) if self.is_done else {}


@dataclasses.dataclass(eq=False)
class Search:
    """Successive halving over the candidates of an experiment.

    Attributes:
      space: of the candidates.
      rungs: of the halving.
      budget: in runs; what `rungs` leave of it pays for candidates within the noise and beyond the range.
      folder: of the candidates' run directories.
      advance: trains a candidate; picklable where `executor` is of other processes.
      executor: runs the calls of `advance`; its workers see the same folder.
      metric: of the held-out data, which decides at the end; None: the training loss decides.
      workers: calls at once, for the expected time.
      say: called with lines of progress.
    """

    space: SearchSpace
    rungs: Rungs
    budget: float
    folder: str
    advance: Advance
    executor: concurrent.futures.Executor
    metric: Metric | None
    workers: int = 1
    say: Say = print
    candidates: list[Candidate] = dataclasses.field(default_factory=list)

    @property
    def total_steps(self) -> int:
        """Steps of a whole run."""
        return self.space.total_steps

    @property
    def spent(self) -> float:
        """What all candidates have cost, in runs."""
        return sum(each.steps for each in self.candidates) / self.total_steps

    def prepare(self) -> None:
        """Makes the first candidates, and checks that their folders hold no others.

        Raises:
          ValueError: the folder holds another search.
        """
        for point in self.space.points(self.rungs.first):
            self.add(point)

    def run(self) -> Candidate:
        """Searches, and returns the winner.

        Raises:
          ValueError: a candidate cannot be trained, or all of them diverged.
          Preempted: a signal stopped the search, which begins again where it is.
        """
        began = time.monotonic()
        alive = list(self.candidates)
        self._pilot(alive[0])
        for number, share in enumerate(self.rungs.shares):
            if len(alive) <= self.rungs.keep[number]:
                # Nobody would leave.
                continue
            step = round(share * self.total_steps)
            self.train(alive, step, f"to {share:.0%}")
            # At the first rung the learning rate that is best there is known to be too high.
            if number or all(each.diverged for each in alive):
                alive += self._wider(alive, step, share, self.budget - self.rungs.rest(number))
            room = self.rungs.room(number, self.budget - self._spent_at(step))
            losses = {each.number: self.losses(each, step) for each in alive}
            stay = halving.staying(losses, self.rungs.keep[number], room=room)
            if not stay:
                raise InputError(
                    f"tune: all of {len(alive)} candidates diverged before step {step:,}. Give a lower learning rate, "
                    "clip the gradients, or warm up longer."
                )
            best = self.candidates[stay[0]]
            spent, seconds = self._spent_at(step), time.monotonic() - began
            self.say(
                f"rung       {share:.0%} of the run, step {step:,}: {len(stay)} of {len(alive)} stay, {spent:.2f} runs "
                f"spent, {seconds:,.0f} s. Best: {best.number}, {best.point}"
            )
            alive = [self.candidates[each] for each in stay]
        self.train(alive, self.total_steps, "to the end")
        return self.ranked()[0]

    def ranked(self) -> list[Candidate]:
        """All candidates, best first: those at their end by the held-out metric, the others by how far they came.

        Raises:
          ValueError: none reached its end.
        """
        if not any(each.is_done for each in self.candidates):
            raise InputError("tune: no candidate reached the end of its run: all that were continued diverged.")
        return sorted(self.candidates, key=self._order)

    def _order(self, candidate: Candidate) -> tuple[Any, ...]:
        loss = math.fsum(rows := self.losses(candidate, candidate.steps)) / len(rows)
        if not candidate.is_done:
            return (True, -candidate.steps, loss, candidate.number)
        value = self.metric.order(candidate.metrics.get(self.metric.name)) if self.metric else loss
        return (False, math.inf if math.isnan(value) else value, loss, candidate.number)

    def add(self, point: Point) -> Candidate:
        """Makes a candidate, in the folder of its number.

        Raises:
          ValueError: the folder holds another one.
        """
        number = len(self.candidates)
        config = self.space.config_of(point)
        config.log_every = f"{self._row_steps} steps"
        config.keep_best = False
        directory = os.path.join(self.folder, f"candidate-{number:02}")
        RunDirectory(directory).check(config.to_dict())
        self.candidates.append(Candidate(number, point, config, directory))
        return self.candidates[-1]

    @property
    def _row_steps(self) -> int:
        return row_steps(self.total_steps)

    def losses(self, candidate: Candidate, step: int) -> list[float]:
        """The training losses that count for a candidate at a step; see `halving.loss_before`."""
        if candidate.diverged and candidate.steps < step:
            return [math.inf]
        return halving.loss_before(candidate.curve, step, self.total_steps)

    def _spent_at(self, step: int) -> float:
        """What the candidates have cost until a rung, in runs, also where the search comes by there again."""
        return sum(min(each.steps, step) for each in self.candidates) / self.total_steps

    def _wider(self, alive: Sequence[Candidate], step: int, share: float, most: float) -> list[Candidate]:
        """New candidates at a rung, past the end of the range of learning rates where the best one is.

        All candidates may then have cost `most` runs.
        """
        found: list[Candidate] = []
        while len(found) < _WIDER and self._spent_at(step) + share <= most + 1e-9:
            order = halving.staying({each.number: self.losses(each, step) for each in [*alive, *found]}, 1)
            points = [each.point for each in self.candidates]
            point = self.space.beyond(self.candidates[order[0]].point, points) if order else self.space.below(points)
            if point is None:
                break
            found.append(self.add(point))
            why = "the best learning rate is at the end of the range" if order else "all diverged"
            self.say(f"wider      {why}: {found[-1].number}, {point}")
            self.train(found[-1:], step, f"to {share:.0%}")
        return found

    # ---- Training ---------------------------------------------------------------------------------

    def _pilot(self, first: Candidate) -> None:
        """Trains the first candidate a little; a mistake ends here, and the search's time is known after it."""
        steps = max(_PILOT_ROWS, round(_PILOT * self.total_steps / self._row_steps)) * self._row_steps
        shares = ", ".join(f"{each:.0%}" for each in self.rungs.shares)
        self.say(
            f"plan       {self.rungs.first} candidates, rungs at {shares or 'the end'}: {self.rungs.cost:.2f} runs of "
            f"{self.total_steps:,} steps; at most {self.budget:g}"
        )
        self.train([first], min(steps, self.total_steps), "")
        rows = read_rows(RunDirectory(first.directory).metrics)
        # The first row has the time that the step is traced.
        speeds = [speed for row in rows if (speed := row.get("examples_per_second"))][1:]
        if speeds:
            seconds = self.total_steps * first.config.batch_size / max(speeds)
            whole = seconds * max(0.0, self.rungs.cost - self.spent) / self.workers
            self.say(
                f"time       a run takes about {_shown(seconds)}, the search about {_shown(whole)}, start-up apart"
            )

    def train(self, candidates: Sequence[Candidate], step: int, words: str) -> None:
        """Trains candidates to a step, those that are not there yet."""
        waiting = [each for each in candidates if each.steps < step and not (each.diverged or each.is_done)]
        lost: dict[int, int] = {}
        with self._bar(waiting, step, words) as show:
            while waiting:
                before = {each.number: each.steps for each in waiting}
                failed = self._together(waiting, step, show)
                for candidate, error in failed:
                    progressed = candidate.steps > before[candidate.number]
                    lost[candidate.number] = 1 if progressed else lost.get(candidate.number, 0) + 1
                    if isinstance(error, ValueError) or lost[candidate.number] > _LOST:
                        raise InputError(f"tune: candidate {candidate.number} cannot be trained: {error}") from None
                    self.say(f"lost       candidate {candidate.number} continues from its pause: {first_line(error)}")
                waiting = [candidate for candidate, _ in failed]

    def _together(
        self, candidates: Sequence[Candidate], step: int, show: Callable[[], None]
    ) -> list[tuple[Candidate, BaseException]]:
        """Trains candidates in the executor; returns those that did not come to the step, with their errors."""
        stop_after = step if step < self.total_steps else None
        failed: list[tuple[Candidate, BaseException]] = []
        with collecting_signals() as signals:
            calls = {
                self.executor.submit(
                    self.advance, config=each.config, model_dir=each.directory, stop_after=stop_after
                ): each
                for each in candidates
            }
            left = set(calls)
            while left and not signals:
                done, left = concurrent.futures.wait(left, _POLL, concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    candidate, error = calls[future], future.exception()
                    candidate.read()
                    if isinstance(error, Preempted):
                        signals.append(0)
                    elif not candidate.diverged and (error or candidate.steps < step):
                        failed.append((candidate, error or RuntimeError(f"it is at step {candidate.steps:,}")))
                show()
            if signals:
                self.executor.shutdown(wait=True, cancel_futures=True)
                raise Preempted("stopped on request; the same search continues where it is.")
        return failed

    @contextlib.contextmanager
    def _bar(self, candidates: Sequence[Candidate], step: int, words: str) -> Iterator[Callable[[], None]]:
        """A context with a function that shows how far some candidates are, in a terminal."""
        begun = {each.number: each.steps for each in candidates}
        columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), progress.TimeRemainingColumn())
        with progress.Progress(
            *columns, transient=True, disable=not (words and candidates and sys.stdout.isatty())
        ) as bar:
            task = bar.add_task(words, total=sum(step - steps for steps in begun.values()) or 1)
            said = itertools.count()

            def show() -> None:
                if next(said) % 5 == 0 and not bar.disable:
                    for each in candidates:
                        each.read()
                    reached = [max(begun[each.number], (each.curve or [(0, 0.0)])[-1][0]) for each in candidates]
                    bar.update(task, completed=sum(reached) - sum(begun.values()))

            yield show


def _shown(seconds: float) -> str:
    """A time in words."""
    return (
        f"{seconds:.0f} s"
        if seconds < 100
        else f"{seconds / 60:.0f} min"
        if seconds < 6000
        else f"{seconds / 3600:.1f} h"
    )
