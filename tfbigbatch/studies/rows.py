"""A row of a study with a learning rate chosen by trials on validation data; then its runs at several seeds."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from tfbigbatch.runs.metric import Metric
from tfbigbatch.runs.run_directory import DONE, RunDirectory
from tfbigbatch.studies.entry import Entry
from tfbigbatch.studies.learning_rate_search import best_learning_rate, is_at_end, next_learning_rates
from tfbigbatch.studies.results_cache import ENDED

TRIAL_SEED = 100
"""The seed of all trials; the table's rows have others."""


@dataclasses.dataclass(frozen=True)
class TunedRow:
    """A method at a batch size, with a number of trials of its learning rate.

    Attributes:
      name: of the method.
      config: of the runs at the chosen learning rate.
      trial: of the trials: as `config`, but evaluated on other data.
      learning_rates: the wide range that the trials begin with, rising.
      budget: number of trials; see `learning_rate_search`.
      seeds: of the runs at the chosen learning rate.
      folder: run directories are MODEL_DIR/FOLDER/rate-R/seed-SEED, and MODEL_DIR/FOLDER/trials/rate-R/seed-SEED.
    """

    name: str
    config: ConfigDict
    trial: ConfigDict
    learning_rates: tuple[float, ...]
    budget: int
    seeds: tuple[int, ...]
    folder: str

    def search(self, model_dir: str) -> Search:
        """The results of the trials under `model_dir`, and the next trials."""
        results: dict[float, float] = {}
        while True:
            rates = next_learning_rates(self.learning_rates, results, self.budget)
            found = {rate: loss for rate in rates if (loss := self._loss(rate, model_dir)) is not None}
            results |= found
            if len(found) < len(rates) or not rates:
                return Search(self, results, [rate for rate in rates if rate not in found])

    def trial_entry(self, learning_rate: float) -> Entry:
        """The trial of a learning rate."""
        name, config = f"{self.name}, {learning_rate:g}", _at(self.trial, learning_rate)
        return Entry(name, config, (TRIAL_SEED,), self._trial_folder(learning_rate), "a trial")

    def chosen_entry(self, learning_rate: float, tuned: str) -> Entry:
        """The row of the table at the chosen learning rate."""
        config = _at(self.config, learning_rate)
        return Entry(self.name, config, self.seeds, f"{self.folder}/rate-{learning_rate:g}", tuned)

    def _trial_folder(self, learning_rate: float) -> str:
        return f"{self.folder}/trials/rate-{learning_rate:g}"

    def _loss(self, learning_rate: float, model_dir: str) -> float | None:
        """A trial's final metric, lower is better; inf where it diverged, None where it has not ended."""
        # Not `trial_entry`: copies of the config took most of the time of a study's start.
        trial = Entry(self.name, self.trial, (TRIAL_SEED,), self._trial_folder(learning_rate))
        status = RunDirectory(trial.directory(model_dir, TRIAL_SEED)).status()
        if status.get("status") not in ENDED:
            return None
        metric = Metric.of_task(self.trial.task, self.trial.evaluate_on)
        value = status.get("metrics", {}).get(metric.name) if status["status"] == DONE else None
        loss = metric.order(value)
        return math.inf if math.isnan(loss) else loss


@dataclasses.dataclass(frozen=True)
class Search:
    """The trials of a row at a moment.

    Attributes:
      row: the TunedRow.
      results: loss by learning rate of the trials that have ended; see `learning_rate_search`.
      waiting: learning rates to try next; none when the search has ended.
    """

    row: TunedRow
    results: Mapping[float, float]
    waiting: list[float]

    def trials(self) -> list[Entry]:
        """The trials that have ended, by learning rate."""
        return [self.row.trial_entry(rate) for rate in sorted(self.results)]

    def chosen(self) -> Entry | None:
        """The row of the table; None while the search lasts, or where all trials diverged."""
        if self.waiting or all(math.isinf(loss) for loss in self.results.values()):
            return None
        rate = best_learning_rate(self.results)
        end = ", an end of their range" if is_at_end(self.results) else ""
        return self.row.chosen_entry(rate, f"{rate:g} of {len(self.results)} trials{end}")

    def next_entries(self, model_dir: str) -> list[Entry]:
        """The next runs: trials, or the runs at the chosen learning rate; none when the row is complete."""
        if self.waiting:
            return [self.row.trial_entry(rate) for rate in self.waiting]
        entry = self.chosen()
        if entry is None:
            return []
        states = [RunDirectory(entry.directory(model_dir, seed)).status().get("status") for seed in entry.seeds]
        return [] if all(state in ENDED for state in states) else [entry]


def _at(config: ConfigDict, learning_rate: float) -> Any:
    config = copy.deepcopy(config)
    config.schedule.learning_rate = learning_rate
    return config
