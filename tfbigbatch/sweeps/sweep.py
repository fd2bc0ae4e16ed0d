"""Sweep files: the rows of one results table, each a method at a batch size and several seeds.

A sweep file is Python with a function `get_sweep()`:

    from tfbigbatch import sweeps
    from tfbigbatch.config import new_config, override, make_quick, variant_of

    def get_sweep():
        table = sweeps.Sweep("Digits-LSTM, 40 epochs", baseline="baseline", target=0.95)
        config = variant_of(__file__, "lstm_small_batch.py")
        table.add("baseline", config, seeds=(0, 1, 2))
        table.add("LEGW", sweeps.scaled(config, 512, "legw"), seeds=(0, 1, 2))
        return table

`Sweep.tune` adds a row with a learning rate chosen by trials, which begin with a wide range and go beyond its end or
within, until the best lies inside. The file is executed: run only files that you trust.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict

from tfbigbatch.config import make_quick, override
from tfbigbatch.config.files import address, call, find
from tfbigbatch.config.overrides import hold_tuned_batch
from tfbigbatch.errors import InputError, nearest
from tfbigbatch.run_directory.directory import DIVERGED, DONE, RunDirectory
from tfbigbatch.run_directory.metric import Metric

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


def scaled(
    config: ConfigDict,
    batch_size: int,
    rule: str,
    *,
    tuned_at: int | None = None,
    optimizer: Mapping[str, Any] | None = None,
    learning_rate: float | None = None,
    warmup_epochs: float | None = None,
) -> ConfigDict:
    """A copy of an experiment with its recipe scaled to another batch size.

    Args:
      config: the experiment.
      batch_size: of the copy.
      rule: scaling rule, as in `schedule.rule`.
      tuned_at: the batch size at which `learning_rate` and `warmup_epochs` were tuned; None for the experiment's.
      optimizer: fields of another optimizer; None for the experiment's.
      learning_rate, warmup_epochs: replace the experiment's; None leaves them.
    """
    config = copy.deepcopy(config)
    hold_tuned_batch(config)
    config.batch_size = batch_size
    given = {"rule": rule, "batch_size": tuned_at, "learning_rate": learning_rate, "warmup_epochs": warmup_epochs}
    config.schedule.update({name: value for name, value in given.items() if value is not None})
    if optimizer is not None:
        config.optimizer = optimizer
    return config


@dataclasses.dataclass(eq=False)
class Sweep:
    """Rows of one table.

    Attributes:
      title: for the table and the plots.
      baseline: name of the row that the others are compared with; added like any other.
      target: value of the task's metric; the table shows the steps that each row takes to reach it.
      template: of a sweep with trials: the method that --optimizer takes after.
      entries: the rows without trials, in the order of the table.
      tuned: those with trials, which follow them.
    """

    title: str
    _: dataclasses.KW_ONLY
    baseline: str | None = None
    target: float | None = None
    template: str | None = None
    entries: list[Entry] = dataclasses.field(default_factory=list)
    tuned: list[TunedRow] = dataclasses.field(default_factory=list)

    def add(self, method: str, config: ConfigDict, *, seeds: Iterable[int] = (0,), tuned: str = "") -> None:
        """Adds a row: `method` at the config's batch size. The config is copied, so it may be changed afterwards.

        Args:
          method: name of the row, as "LEGW"; unique together with the batch size.
          config: from `new_config`, `load` or `variant_of`.
          seeds: distinct whole numbers.
          tuned: how the recipe was found, as "10 rates x 2 warm-ups at this batch".

        Raises:
          ValueError: the row exists already, is of another task, or has no seed.
        """
        seeds = tuple(seeds)
        folder = self._checked_folder(method, config, seeds)
        self.entries.append(Entry(method, copy.deepcopy(config), seeds, folder, tuned))

    def tune(
        self,
        method: str,
        config: ConfigDict,
        *,
        trial: ConfigDict,
        learning_rates: Iterable[float],
        budget: int = 5,
        seeds: Iterable[int] = (0,),
    ) -> None:
        """Adds a row whose `schedule.learning_rate` is chosen by trials; see `next_learning_rates`.

        Args:
          method, seeds: as in `add`.
          config: of the runs at the chosen learning rate.
          trial: of the trials: as `config`, but evaluated on data for choosing.
          learning_rates: the trials begin with these: a few far apart, rising.
          budget: number of trials.

        Raises:
          ValueError: as `add`; or the learning rates or the budget are no such thing.
        """
        seeds, rates = tuple(seeds), tuple(learning_rates)
        folder = self._checked_folder(method, config, seeds)
        if not rates or sorted(set(rates)) != list(rates) or rates[0] <= 0 or budget < 1:
            raise InputError(
                f"sweep {self.title!r}, row {method!r}: learning_rates={rates}, budget={budget}; expected rising rates "
                "above 0, as (0.001, 0.01, 0.1), and a budget of 1 or more."
            )
        self.tuned.append(TunedRow(method, copy.deepcopy(config), copy.deepcopy(trial), rates, budget, seeds, folder))

    def _checked_folder(self, method: str, config: ConfigDict, seeds: tuple[int, ...]) -> str:
        """The folder of a new row."""
        here = f"sweep {self.title!r}, row {method!r} at batch {config.batch_size:,}"
        if not seeds or len(set(seeds)) < len(seeds):
            raise InputError(f"{here}: seeds={seeds}; expected at least one, and each once, as (0, 1, 2).")
        # Without characters that a shell interprets.
        name = re.sub(r"[^A-Za-z0-9.]+", "-", method).strip("-.")
        if not name:
            raise InputError(f"{here}: the name holds no letter or digit; expected a method's name, as 'LEGW'.")
        folder = f"{name}/batch-{config.batch_size}"
        for row in self.rows():
            if row.config.task != config.task:
                raise InputError(f"{here}: task {config.task}, but the rows before are of {row.config.task}.")
            if row.folder.lower() == folder.lower():
                raise InputError(f"{here}: there is such a row already. Give it another name or batch size.")
        return folder

    def rows(self) -> list[Entry | TunedRow]:
        """All rows, in the order of the table."""
        return [*self.entries, *self.tuned]

    def selected(self, names: Sequence[str]) -> list[Entry | TunedRow]:
        """The rows of some names, METHOD, METHOD@BATCH or @BATCH in any case; all rows where there is no name.

        Raises:
          ValueError: there is no such row.
        """
        rows = self.rows()
        # The batch by the folder: a row made small has another one.
        batches = [f"@{row.folder.rpartition('batch-')[2]}" for row in rows]
        known = [(row.name, batch, row.name + batch) for row, batch in zip(rows, batches)]
        wanted = {name.lower() for name in names}
        for name in names:
            if not any(name.lower() in map(str.lower, each) for each in known):
                hint = nearest(name, [full for *_, full in known])
                raise InputError(f"--only={name}: the sweep has no such row. {hint}")
        return [row for row, each in zip(rows, known) if not names or wanted & set(map(str.lower, each))]

    def chosen(self, model_dir: str) -> Sweep:
        """The sweep with each tuned row at its chosen learning rate; without those that are not yet chosen."""
        chosen = [entry for row in self.tuned if (entry := row.chosen(model_dir))]
        return dataclasses.replace(self, entries=[*self.entries, *chosen], tuned=[])

    def trials(self, model_dir: str) -> Sweep:
        """The trials of the tuned rows that have ended, as a sweep."""
        entries = [entry for row in self.tuned for entry in row.trials(model_dir)]
        return Sweep(f"{self.title}: trials", entries=entries)

    def with_optimizer(self, name: str) -> Sweep:
        """A sweep with the rows of the `template` under another optimizer, at the front.

        The trials begin at the template's learning rates, and the optimizer keeps those of the template's fields that
        it takes, such as weight decay and clipping.

        Args:
          name: of a registered optimizer.

        Raises:
          ValueError: the optimizer is unknown or has a row, or the sweep has no template.
        """
        if self.template is None:
            raise InputError(f"sweep {self.title!r} names no template, a method that another optimizer can take after.")
        if name in {row.name for row in self.tuned}:
            raise InputError(f"sweep {self.title!r} has a method {name!r}; register the optimizer under another name.")
        own = Sweep(self.title, tuned=[row for row in self.tuned if row.name == self.template])
        added = [
            dataclasses.replace(row, name=name, folder=f"{name}/{row.folder.partition('/')[2]}")
            for row in own._changed(lambda config: override(config, [f"optimizer.name={name}"])).tuned
        ]
        return dataclasses.replace(self, tuned=[*added, *self.tuned])

    def with_fields(self, assignments: Sequence[str]) -> Sweep:
        """A sweep in which all rows and trials have the fields of texts 'field=value'; its title names them.

        Raises:
          ValueError: `override` refuses one, or the rows of a sweep differ in that field.
        """
        differ = ("batch_size", "seed", "optimizer.name", *(("schedule.learning_rate",) if self.tuned else ()))
        for name in (text.partition("=")[0].strip() for text in assignments):
            if name in differ:
                raise InputError(
                    f"--config.{name} cannot be set for all rows of sweep {self.title!r}: it is what they differ in. "
                    "Write a sweep file of your own."
                )
        found = self._changed(lambda config: override(config, assignments))
        return dataclasses.replace(found, title=", ".join([self.title, *assignments]))

    def made_quick(self, data_dir: str | None) -> Sweep:
        """A sweep in which each row is a quick run (`make_quick`) at one seed, with one trial."""
        found = self._changed(lambda config: make_quick(config, data_dir=data_dir))
        entries = [dataclasses.replace(row, seeds=row.seeds[:1]) for row in found.entries]
        tuned = [dataclasses.replace(row, seeds=row.seeds[:1], budget=1) for row in found.tuned]
        return dataclasses.replace(found, entries=entries, tuned=tuned)

    def _changed(self, change: Callable[[ConfigDict], object]) -> Sweep:
        """A copy in which `change` has changed the config of each row and trial."""
        entries, tuned = copy.deepcopy(self.entries), copy.deepcopy(self.tuned)
        for config in (*(row.config for row in entries), *(each for row in tuned for each in (row.config, row.trial))):
            change(config)
        return dataclasses.replace(self, entries=entries, tuned=tuned)


def load(path: str) -> Sweep:
    """The sweep that a sweep file gives.

    Raises:
      ValueError: there is no such file, it has no `get_sweep`, or its sweep has no rows or lacks its baseline.
    """
    sweep = call(path, "get_sweep", flag="sweep")
    if not isinstance(sweep, Sweep):
        raise InputError(f"--sweep={path}: get_sweep() returned {type(sweep).__name__}; expected a sweeps.Sweep.")
    rows = sweep.rows()
    if not rows:
        raise InputError(f"--sweep={path}: the sweep has no rows; add some with its add().")
    for config in (*(row.config for row in rows), *(row.trial for row in sweep.tuned)):
        # A config that the sweep file made by itself: the file may have registered its task.
        config.experiment = config.experiment or address(find(path)[0])
    methods = [row.name for row in rows]
    if sweep.baseline is not None and sweep.baseline not in methods:
        raise InputError(
            f"--sweep={path}: the baseline {sweep.baseline!r} is not among its rows. {nearest(sweep.baseline, methods)}"
        )
    return sweep
