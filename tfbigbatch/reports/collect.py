"""Reads run directories into rows of runs: config, progress and results.

It changes nothing, so it also works on runs that are in progress.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import math
import os
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tfbigbatch.config.fields import completed
from tfbigbatch.config.files import register_task_of
from tfbigbatch.config.overrides import compared
from tfbigbatch.errors import InputError
from tfbigbatch.run_directory.directory import DIVERGED, DONE, RunDirectory, checked_config, read_json
from tfbigbatch.run_directory.metrics_log import Scalars

if TYPE_CHECKING:
    from tfbigbatch.run_directory.metric import Metric

NOT_STARTED = "not started"
# The end of a folder's name that tells a seed: 'seed-0', 'legw_seed3'.
_SEED = re.compile(r"[-_./ ]*seed[-_ =]?\d+$")
_SEPARATORS = "-_./ "


@dataclasses.dataclass(frozen=True)
class Run:
    """One run directory.

    Attributes:
      directory: its path; it need not exist yet.
      seed: of the config.
      config: plain nested dictionary; empty before the run has started.
      versions: of the packages; empty before the run has started.
      status: content of status.json; empty before the run has started.
    """

    directory: str
    seed: int
    config: dict[str, Any] = dataclasses.field(default_factory=dict)
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    status: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def state(self) -> str:
        """The status: done, diverged, preempted, running or NOT_STARTED."""
        return self.status.get("status", NOT_STARTED)

    def value(self, metric: Metric) -> float | None:
        """The final metric of a finished run; else None, and where it is NaN or infinite."""
        value = self.status.get("metrics", {}).get(metric.name) if self.state == DONE else None
        return value if value is not None and math.isfinite(value) else None

    def state_by(self, metric: Metric) -> str:
        """The state; a finished run with a final metric of NaN or infinity counts as diverged."""
        known = self.state == DONE and metric.name in self.status.get("metrics", {})
        return DIVERGED if known and self.value(metric) is None else self.state

    @functools.cached_property
    def scalars(self) -> Scalars:
        """Of its log, as they were at the first call."""
        return Scalars(self.directory)

    def curve(self, metric: Metric) -> dict[int, float]:
        """The metric by step, at each evaluation where it was finite."""
        values = self.scalars.series("eval", metric.name)
        return {step: value for step, value in values.items() if math.isfinite(value)}


@dataclasses.dataclass(frozen=True)
class Row:
    """Runs of one config at several seeds: a row of a table.

    Attributes:
      name: of the row.
      config: plain nested dictionary, at the first seed.
      runs: one for each seed.
      tuned: how the recipe was found; may be empty.
    """

    name: str
    config: dict[str, Any]
    runs: list[Run]
    tuned: str = ""

    @property
    def batch_size(self) -> int:
        return self.config["batch_size"]


def of_entries(entries: Iterable[Any], model_dir: str) -> list[Row]:
    """A Row for each `sweeps.Entry`, from the run directories under `model_dir`.

    Raises:
      ValueError: a directory holds a run of a config other than its entry's.
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


def found_in(folders: Iterable[str]) -> list[Row]:
    """The run directories in and under `folders`, grouped by their configs except the seed.

    A group is named by its folder; see `row_names`.

    Raises:
      ValueError: there is no such folder, it holds no run, or the same run twice.
    """
    groups: dict[str, dict[int, Run]] = {}
    for folder in folders:
        if not os.path.isdir(folder):
            what = "is a file" if os.path.exists(folder) else "does not exist"
            raise InputError(f"{folder} {what}; expected a run directory, or a folder with run directories below it.")
        paths = [path for path, _, files in sorted(os.walk(folder)) if "config.json" in files]
        if not paths:
            raise InputError(f"{folder} holds no run directory: no config.json in it or below it.")
        for path in paths:
            run = _read(os.path.normpath(path))
            runs = groups.setdefault(json.dumps({**compared(run.config), "seed": None}, sort_keys=True), {})
            before = runs.setdefault(run.seed, run)
            if before.directory != run.directory:
                raise InputError(f"{before.directory} and {run.directory} hold the same run; leave one out.")
    grouped = [[runs[seed] for seed in sorted(runs)] for runs in groups.values()]
    sizes = [int(runs[0].config["batch_size"]) for runs in grouped]
    names = row_names([[run.directory for run in runs] for runs in grouped], sizes)
    rows = [Row(name, runs[0].config, runs) for name, runs in zip(names, grouped)]
    return sorted(rows, key=lambda row: row.batch_size)


def only_task(rows: Iterable[Row]) -> str:
    """The task of all rows.

    Raises:
      ValueError: there are several.
    """
    found = sorted({row.config["task"] for row in rows})
    if len(found) > 1:
        raise InputError(f"runs of several tasks: {', '.join(found)}. A table holds one; give the runs of one task.")
    return found[0]


def versions(rows: Iterable[Row]) -> list[dict[str, str]]:
    """The different sets of package versions that runs used."""
    found: list[dict[str, str]] = []
    for used in (run.versions for row in rows for run in row.runs):
        if used and used not in found:
            found.append(used)
    return found


def _read(path: str, seed: int = 0) -> Run:
    stored = read_json(os.path.join(path, "config.json"))
    if stored is None:
        return Run(path, seed)
    checked_config(stored, os.path.join(path, "config.json"), needs=("task", "batch_size"))
    status = RunDirectory(path).status()
    register_task_of(stored["config"], path)
    config = completed(stored["config"])
    return Run(path, config.get("seed", seed), config, stored.get("versions") or {}, status)


def row_names(directories: Sequence[Sequence[str]], batch_sizes: Sequence[int]) -> list[str]:
    """A name for each row: the path of its runs below the folder that all have in common, without the seed.

    Where the rows have several batch sizes, each is left out of the names that hold it: 'legw_512' and 'legw_1024'
    are one line of a plot, 'legw'.

    Args:
      directories: of each row's runs, one for each seed.
      batch_sizes: of each row; has a column of its own.
    """
    paths = [[os.path.abspath(path) for path in runs] for runs in directories]
    root = os.path.commonpath([os.path.dirname(path) for runs in paths for path in runs])
    relative = [[os.path.relpath(path, root) for path in runs] for runs in paths]
    names = [_common(runs) for runs in relative]
    if names == [""]:
        return [os.path.basename(root)]
    # Two rows that differ in more than their seeds may lie in folders named by seeds.
    counts = collections.Counter(names)
    names = [name if name and counts[name] == 1 else runs[0] for name, runs in zip(names, relative)]
    shorter = [_without_batch(name, batch_size) for name, batch_size in zip(names, batch_sizes)]
    unique = len(set(zip(shorter, batch_sizes))) == len(names)
    return shorter if unique and len(set(batch_sizes)) > 1 else names


def _common(paths: Sequence[str]) -> str:
    """The common part of one row's paths; may be ''."""
    without = {_SEED.sub("", path) for path in paths}
    if len(without) == 1:
        return without.pop()
    # Up to the seeds, which begin somewhere in the digits: '0' and '1', or '10' and '11'.
    return os.path.commonprefix(list(paths)).rstrip(_SEPARATORS + "0123456789")


def _without_batch(name: str, batch_size: int) -> str:
    sizes = {str(batch_size), f"{batch_size:,}", *({f"{batch_size // 1024}k"} if batch_size % 1024 == 0 else ())}
    pattern = rf"(^|[-_./ ])(?:batch|bs|b)?[-_ =]?(?:{'|'.join(map(re.escape, sizes))})(?=$|[-_./ ])"
    return re.sub(pattern, "", name).strip(_SEPARATORS) or name
