"""Run directories read back: what was run, how far it got, and what it gave.

Nothing here runs or changes anything, so it works beside runs that are still going.
"""

import dataclasses
import json
import os

from tfbigbatch import experiment
from tfbigbatch.errors import InputError
from tfbigbatch.runs.metrics_log import read_rows
from tfbigbatch.runs.run_directory import DONE, RunDirectory, read_json
from tfbigbatch.runs.stored_run import checked_config

NOT_STARTED = "not started"


@dataclasses.dataclass(frozen=True)
class Run:
    """One run directory.

    Attributes:
      directory: its path; it need not exist yet.
      seed: int.
      config: plain nested dictionary; None before the run has started.
      versions: of the packages; None before the run has started.
      status: content of status.json; empty before the run has started.
    """

    directory: str
    seed: int
    config: dict | None = None
    versions: dict | None = None
    status: dict = dataclasses.field(default_factory=dict)

    @property
    def state(self):
        return self.status.get("status", NOT_STARTED)

    def value(self, metric):
        """The metric at the end of a finished run; else None."""
        return self.status.get("metrics", {}).get(metric.name) if self.state == DONE else None

    def curve(self, metric):
        """Update to value, at each evaluation."""
        rows = read_rows(os.path.join(self.directory, "metrics.jsonl"))
        return {
            row["step"]: row[metric.name]
            for row in rows
            if row["split"] == "eval" and isinstance(row.get(metric.name), (int, float))
        }


@dataclasses.dataclass(frozen=True)
class Row:
    """Runs of one config that differ in the seed: a row of a table.

    Attributes:
      name: of the row.
      config: plain nested dictionary, at the first seed.
      runs: list of Run.
      tuned: words on how the recipe was found; may be empty.
    """

    name: str
    config: dict
    runs: list
    tuned: str = ""

    @property
    def batch_size(self):
        return self.config["batch_size"]


def of_entries(entries, model_dir):
    """One Row an Entry, from the run directories under `model_dir`.

    Raises:
      ValueError: a directory holds a run of another config than its entry's.
    """
    rows = []
    for entry in entries:
        runs = []
        for seed in entry.seeds:
            path = entry.directory(model_dir, seed)
            RunDirectory(path).check(entry.config_at(seed).to_dict())
            runs.append(_read(path, seed))
        rows.append(Row(entry.name, entry.config_at(entry.seeds[0]).to_dict(), runs, entry.tuned))
    return rows


def found_in(folders):
    """The run directories in and under `folders`, grouped by their configs apart from the seed.

    A group is named by the fields in which the groups differ, its batch size apart: that has a column.

    Raises:
      ValueError: there is no such folder, it holds no run, or one run lies there twice.
    """
    groups = {}
    for folder in folders:
        if not os.path.isdir(folder):
            what = "is a file" if os.path.exists(folder) else "does not exist"
            raise InputError(f"{folder} {what}; expected a run directory, or a folder with run directories below it.")
        paths = [path for path, _, files in sorted(os.walk(folder)) if "config.json" in files]
        if not paths:
            raise InputError(f"{folder} holds no run directory: no config.json in it or below it.")
        for path in paths:
            run = _read(os.path.normpath(path))
            runs = groups.setdefault(json.dumps({**run.config, "seed": None}, sort_keys=True), {})
            before = runs.setdefault(run.seed, run)
            if before.directory != run.directory:
                raise InputError(f"{before.directory} and {run.directory} hold the same run; leave one out.")
    return _named([[runs[seed] for seed in sorted(runs)] for runs in groups.values()])


def only_task(rows):
    """The task of all rows.

    Raises:
      ValueError: there are several.
    """
    found = sorted({row.config["task"] for row in rows})
    if len(found) > 1:
        raise InputError(f"runs of several tasks: {', '.join(found)}. One table holds one; give the runs of one task.")
    return found[0]


def differing(configs):
    """The names of the fields in which flat dictionaries differ, sorted; an absent one counts as None."""
    names = sorted({name for config in configs for name in config})
    return [name for name in names if len({str(config.get(name)) for config in configs}) > 1]


def _read(path, seed=None):
    stored = read_json(os.path.join(path, "config.json"))
    if stored is None:
        return Run(path, seed)
    checked_config(stored, os.path.join(path, "config.json"), needs=("task", "batch_size"))
    status = RunDirectory(path).status()
    config = experiment.completed(stored["config"])
    return Run(path, config.get("seed", seed), config, stored.get("versions"), status)


# Fields that change what a run writes and how fast it is, and not what it gives.
_ASIDE = {"batch_size", "log_every", "checkpoint_every", "keep_checkpoints", "histograms", "steps_per_execution"}


def _named(groups):
    flat = [experiment.flat({**runs[0].config, "seed": None}) for runs in groups]
    fields = differing(flat)
    for chosen in ([name for name in fields if name not in _ASIDE], fields):
        names = [_name(config, chosen) for config in flat]
        if len(set(zip(names, (config["batch_size"] for config in flat)))) == len(flat):
            break
    rows = [Row(name, runs[0].config, runs) for name, runs in zip(names, groups)]
    return sorted(rows, key=lambda row: row.batch_size)


def _name(config, fields):
    shown = {field: field.rpartition(".")[2] for field in fields}
    last = list(shown.values())
    # The inner name alone, where no other field has it.
    return (
        ", ".join(
            f"{field if last.count(shown[field]) > 1 else shown[field]}={config[field]}"
            for field in fields
            if field in config
        )
        or config["task"]
    )
