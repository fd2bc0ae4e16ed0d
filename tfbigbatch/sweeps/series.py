"""Runs the rows of a sweep at their seeds, in this process or several; resumable."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any

from tfbigbatch.config import execute
from tfbigbatch.config.files import find, was_named
from tfbigbatch.errors import DivergedError, InputError, Preempted, first_line
from tfbigbatch.run_directory.directory import RunDirectory
from tfbigbatch.run_directory.metric import Metric
from tfbigbatch.sweeps.local_processes import LocalProcesses
from tfbigbatch.sweeps.results_cache import ResultsCache
from tfbigbatch.sweeps.sweep import ENDED, Entry, Sweep, TunedRow
from tfbigbatch.utils.home import expanded
from tfbigbatch.utils.signals import collecting_signals

_POLL = 0.1  # seconds


class NothingRun(InputError):
    """A run of the series was refused before the first began."""


def run_rows(rows: Sequence[Entry | TunedRow], model_dir: str, run_entries: Callable[[list[Entry]], object]) -> None:
    """Runs rows until all are complete: each tuned row's first trial, then each one's second, and so on.

    `run_entries` runs some entries under `model_dir`, and returns when they have ended.
    """
    if plain := [row for row in rows if isinstance(row, Entry)]:
        run_entries(plain)
    tuned = [row for row in rows if isinstance(row, TunedRow)]
    while rounds := [found for row in tuned if (found := row.next_entries(model_dir))]:
        run_entries([entry for each in itertools.zip_longest(*rounds) for entry in each if entry])


def restore(table: Sweep, model_dir: str, cache: ResultsCache) -> None:
    """Writes the run directories of a sweep's rows that a cache has and `model_dir` lacks."""

    def restored(entry: Entry) -> int:
        return sum(cache.restore(entry.directory(model_dir, s), entry.config_at(s).to_dict()) for s in entry.seeds)

    for entry in table.entries:
        restored(entry)
    for row in table.tuned:
        while sum(map(restored, row.next_entries(model_dir))):
            pass


def run_series(
    entries: Sequence[Entry],
    *,
    model_dir: str,
    data_dir: str | None = None,
    run: Callable[..., object],
    files: Sequence[str] = (),
    processes: int = 1,
    executor: concurrent.futures.Executor | None = None,
    cache: ResultsCache | None = None,
    on_run_end: Callable[[], object] = lambda: None,
    check: Callable[..., object] = lambda **arguments: None,
) -> None:
    """Runs every entry at every seed, each in its own run directory, except those that are finished.

    Parallel runs pay off on one machine: two processes of one thread train more images per second than one of two.
    Output goes to seed-SEED.log beside the run directory.

    Args:
      entries: the rows.
      model_dir: run directories are MODEL_DIR/FOLDER/seed-SEED.
      data_dir: folder of the task's data.
      run: `tfbigbatch.train.run`.
      files: that other processes execute first, because they may register optimizers and tasks.
      processes: number of runs at once; 1 runs them in this process, unless their `simulated_replicas` differ, since
        TensorFlow's logical CPUs are those of a process.
      executor: runs the calls, in place of `processes`; its processes see the same run directories.
      cache: keeps the runs that have ended; None for no such file.
      on_run_end: called after each run.
      check: called for each run that is not finished with the arguments of `run`, before the first begins.

    Raises:
      NothingRun: `check` refused a run.
      ValueError: a directory holds a run of another config (nothing is run); or runs failed: the message names them,
        and the other parallel runs were finished first.
      Preempted: SIGINT or SIGTERM was received; the runs were saved.
    """
    runs = []
    for entry in entries:
        for seed in entry.seeds:
            config, directory = entry.config_at(seed), entry.directory(expanded(model_dir), seed)
            RunDirectory(directory).check(config.to_dict())
            arguments = {"config": config, "model_dir": directory, "data_dir": expanded(data_dir)}
            runs.append(_Run(f"{entry.name} at {config.batch_size:,}, seed {seed}", arguments))
    metric = Metric.of_task(entries[0].config.task, entries[0].config.evaluate_on)
    series, waiting = _Series(runs, metric, cache, on_run_end), []
    for each in runs:
        if each.status.get("status") in ENDED:
            series.say_ended(each, "finished before; nothing to do.")
        else:
            waiting.append(each)
    for each in waiting:
        try:
            check(**each.arguments)
        except InputError as error:
            raise NothingRun(f"{each.name}: {error}" if len(runs) > 1 else str(error)) from None
    replicas = {each.arguments["config"].simulated_replicas for each in waiting}
    if executor is None and processes == 1 and len(replicas) <= 1:
        for each in waiting:
            print(f"\n[{series.done + 1}/{len(runs)}] {each.name}", flush=True)
            try:
                run(**each.arguments)
            except DivergedError as error:
                print(error, flush=True)
            series.ended(each)
    elif waiting:
        with contextlib.nullcontext(executor) if executor else LocalProcesses(processes) as workers:
            _in_other_processes(series, waiting, run, [os.path.abspath(file) for file in files], workers)


@dataclasses.dataclass(frozen=True, eq=False)
class _Run:
    """One run of the series, with the arguments of `train.run`."""

    name: str
    arguments: dict[str, Any]

    @property
    def status(self) -> dict[str, Any]:
        return RunDirectory(self.arguments["model_dir"]).status()


@dataclasses.dataclass
class _Series:
    """The runs of a series, and how many have ended."""

    runs: Sequence[_Run]
    metric: Metric
    cache: ResultsCache | None
    on_run_end: Callable[[], object]
    done: int = 0

    def ended(self, each: _Run) -> None:
        """Says and keeps the result of a run."""
        self.say_ended(each, f"{each.status.get('seconds', 0.0):.0f} s")
        if self.cache:
            self.cache.keep([each.arguments["model_dir"] for each in self.runs])
        self.on_run_end()

    def say_ended(self, each: _Run, words: str) -> None:
        self.done += 1
        status = each.status
        value = status.get("metrics", {}).get(self.metric.name)
        shown = status["status"] if value is None else f"{self.metric.title} {self.metric.shown(value)}"
        self.say(each, f"{shown}, {words}")

    def say(self, each: _Run, words: str) -> None:
        print(f"[{self.done}/{len(self.runs)}] {each.name}: {words}", flush=True)


def run_after_files(run: Callable[..., object], files: Sequence[str], **arguments: Any) -> object:
    """One run in another process, which executes the files that register what it needs."""
    for file in files:
        execute(file)
    return run(**arguments)


def _in_other_processes(
    series: _Series,
    waiting: Sequence[_Run],
    run: Callable[..., object],
    files: Sequence[str],
    workers: concurrent.futures.Executor,
) -> None:
    runs: dict[concurrent.futures.Future[Any], _Run] = {}
    for each in waiting:
        own = find(each.arguments["config"].experiment)[0]
        # An experiment's file that the user named here is executed there too.
        needed = [*files, own] if was_named(own) and own not in files else files
        runs[workers.submit(run_after_files, run, needed, **each.arguments)] = each
    failed: list[str] = []
    left = set(runs)
    with collecting_signals() as signals:
        try:
            while left:
                done, left = concurrent.futures.wait(left, _POLL, concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    each, error = runs[future], future.exception()
                    if each.status.get("status") in ENDED:
                        series.ended(each)
                    elif isinstance(error, Preempted):
                        series.say(each, "stopped; it resumes from its checkpoint.")
                    else:
                        failed.append(f"{each.name}: {first_line(error) if error else 'not finished'}")
                        series.say(each, str(error))
                if signals:
                    workers.shutdown(wait=False, cancel_futures=True)
                    left = {future for future in left if not future.cancelled()}
        finally:
            if left:  # After an error in this process.
                workers.shutdown(wait=False, cancel_futures=True)
    if signals:
        raise Preempted("stopped on request; the same command resumes.")
    if failed:
        logs = "\n  ".join(failed)
        raise InputError(f"{len(failed)} of {len(runs)} runs failed, and the others finished:\n  {logs}")
