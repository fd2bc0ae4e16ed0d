"""The rows of a study: a config at several seeds, or one whose learning rate is chosen by trials before that.

Trials begin with a wide range of learning rates, and go beyond its end or within, until the best lies inside.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import os
from collections.abc import Mapping, Sequence

from ml_collections import ConfigDict

from tfbigbatch.runs.metric import Metric
from tfbigbatch.runs.run_directory import DIVERGED, DONE, RunDirectory

ENDED = (DONE, DIVERGED)
"""The states of a run that is not run again: a diverged one would diverge again."""
TRIAL_SEED = 100
"""The seed of all trials; the table's rows have others."""
# Trials beyond the budget, where the best is still at an end of the range.
EXTRA = 3


@dataclasses.dataclass(frozen=True)
class Entry:
    """One row to run: a config at several seeds.

    Attributes:
      name: of the row.
      config: from an experiment file.
      seeds: one run each.
      folder: run directories are MODEL_DIR/FOLDER/seed-SEED.
      tuned: how the recipe was found, for the table; empty for no words.
    """

    name: str
    config: ConfigDict
    seeds: tuple[int, ...]
    folder: str
    tuned: str = ""

    def config_at(self, seed: int) -> ConfigDict:
        """The config of the run at `seed`."""
        config = copy.deepcopy(self.config)
        config.seed = seed
        return config

    def directory(self, model_dir: str, seed: int) -> str:
        """The run directory at `seed`."""
        return os.path.join(model_dir, self.folder, f"seed-{seed}")


@dataclasses.dataclass(frozen=True)
class TunedRow:
    """A method at a batch size, with a number of trials of its learning rate on validation data.

    Attributes:
      name, seeds: as of an `Entry`.
      config: of the runs at the chosen learning rate.
      trial: of the trials: as `config`, but evaluated on other data.
      learning_rates: the wide range that the trials begin with, rising.
      budget: number of trials.
      folder: run directories are MODEL_DIR/FOLDER/rate-R/seed-SEED, and MODEL_DIR/FOLDER/trials/rate-R/seed-SEED.
    """

    name: str
    config: ConfigDict
    trial: ConfigDict
    learning_rates: tuple[float, ...]
    budget: int
    seeds: tuple[int, ...]
    folder: str

    def results(self, model_dir: str) -> tuple[dict[float, float], list[float]]:
        """The losses of the trials that have ended, by learning rate, and the next rates to try; none at the end."""
        results: dict[float, float] = {}
        while True:
            rates = next_learning_rates(self.learning_rates, results, self.budget)
            found = {rate: loss for rate in rates if (loss := self._loss(rate, model_dir)) is not None}
            results |= found
            if len(found) < len(rates) or not rates:
                return results, [rate for rate in rates if rate not in found]

    def trials(self, model_dir: str) -> list[Entry]:
        """The trials that have ended, by learning rate."""
        return [self._trial(rate) for rate in sorted(self.results(model_dir)[0])]

    def chosen(self, model_dir: str) -> Entry | None:
        """The row of the table; None while trials are missing, or where all of them diverged."""
        results, waiting = self.results(model_dir)
        if waiting or all(math.isinf(loss) for loss in results.values()):
            return None
        rate = best_learning_rate(results)
        tuned = f"{rate:g} of {len(results)} trials" + (", an end of their range" if is_at_end(results) else "")
        return Entry(self.name, _at(self.config, rate), self.seeds, f"{self.folder}/rate-{rate:g}", tuned)

    def next_entries(self, model_dir: str) -> list[Entry]:
        """The next runs: trials, or the runs at the chosen learning rate; none when the row is complete."""
        if waiting := self.results(model_dir)[1]:
            return [self._trial(rate) for rate in waiting]
        entry = self.chosen(model_dir)
        if entry is None:
            return []
        states = [RunDirectory(entry.directory(model_dir, seed)).status().get("status") for seed in entry.seeds]
        return [] if all(state in ENDED for state in states) else [entry]

    def _trial(self, rate: float) -> Entry:
        folder = f"{self.folder}/trials/rate-{rate:g}"
        return Entry(f"{self.name}, {rate:g}", _at(self.trial, rate), (TRIAL_SEED,), folder, "a trial")

    def _loss(self, rate: float, model_dir: str) -> float | None:
        """A trial's final metric, lower is better; inf where it diverged, None where it has not ended."""
        status = RunDirectory(self._trial(rate).directory(model_dir, TRIAL_SEED)).status()
        if status.get("status") not in ENDED:
            return None
        metric = Metric.of_task(self.trial.task, self.trial.evaluate_on)
        loss = metric.order(status.get("metrics", {}).get(metric.name) if status["status"] == DONE else None)
        return math.inf if math.isnan(loss) else loss


def _at(config: ConfigDict, learning_rate: float) -> ConfigDict:
    config = copy.deepcopy(config)
    config.schedule.learning_rate = learning_rate
    return config


def next_learning_rates(first: Sequence[float], results: Mapping[float, float], budget: int) -> list[float]:
    """The learning rates to try next; none when the search has ended.

    Those of `first` come first, from the middle out, as many as the budget has room for. Then one at a time: where the
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
