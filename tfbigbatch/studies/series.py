"""Runs several experiments at several seeds, in this process or in parallel ones; resumable."""

from __future__ import annotations

import dataclasses
import functools
import os
import signal
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import ml_collections

from tfbigbatch import experiment
from tfbigbatch.errors import DivergedError, InputError, Preempted
from tfbigbatch.experiment import files as experiment_files
from tfbigbatch.experiment import remembered
from tfbigbatch.runs.metric import Metric
from tfbigbatch.runs.run_directory import RunDirectory
from tfbigbatch.studies.entry import Entry
from tfbigbatch.studies.results_cache import ENDED, ResultsCache
from tfbigbatch.utils.home import expanded
from tfbigbatch.utils.processes import Job, forking_refused, run_jobs

_LOG_LINES = 8
# Imported once for all runs in processes that are forks.
_PRELOAD = (
    "tfbigbatch.training.setup",
    "tfbigbatch.training.trainer",
    "tfbigbatch.optimizers.keras2",
    "tfbigbatch.schedules.keras2",
    "tfbigbatch.tasks.losses",
    "tfbigbatch.tasks.losses",
    "tfbigbatch.instruments.event_log",
)


class NothingRun(InputError):
    """A run of the series was refused before the first began."""


def run_series(
    entries: Sequence[Entry],
    *,
    model_dir: str,
    data_dir: str | None = None,
    run: Callable[..., object],
    files: Sequence[str] = (),
    processes: int = 1,
    ended_runs: str | None = None,
    on_run_end: Callable[[], object] | None = None,
    check: Callable[..., object] | None = None,
    fork: bool = False,
) -> None:
    """Runs every entry at every seed, each in its own run directory, except those that are finished.

    A diverged run counts as finished, as it would diverge again. Parallel runs pay off on one machine: two processes of
    one thread train more images per second than one of two. Output goes to seed-SEED.log beside the run directory.

    Args:
      entries: the rows.
      model_dir: run directories are MODEL_DIR/FOLDER/seed-SEED.
      data_dir: folder of the task's data.
      run: `tfbigbatch.train.run`.
      files: that parallel processes execute first, because they may register optimizers and tasks.
      processes: number of runs at once; 1 runs them in this process, unless their `simulated_replicas` differ, since
        TensorFlow's logical CPUs are those of a process.
      ended_runs: a `ResultsCache` of finished runs; those missing in `model_dir` are restored.
      on_run_end: called after each run.
      fork: whether the parallel processes are forks of one that has imported TensorFlow; see `processes.run_jobs`.
      check: called for each run that is not finished with the arguments of `run`, before the first begins.

    Raises:
      NothingRun: `check` refused a run.
      ValueError: a directory holds a run of another config, or `ended_runs` is another kind of file (nothing is run);
        or runs failed: the message names them, and the other parallel runs were finished first.
      Preempted: SIGINT or SIGTERM was received; the runs were saved.
    """
    if processes < 1:
        raise InputError(f"--processes={processes}: expected 1 or more.")
    model_dir, data_dir = expanded(model_dir), expanded(data_dir)
    planned = [
        _Planned(entry, seed, entry.directory(model_dir, seed), entry.config_at(seed))
        for entry in entries
        for seed in entry.seeds
    ]
    cache = ResultsCache(ended_runs) if ended_runs else None
    for each in planned:
        RunDirectory(each.directory).check(each.config.to_dict())
    for each in planned:
        if cache:
            cache.restore(each.directory, each.config.to_dict())
    progress = _Progress(planned, processes)
    for each in planned:
        if each.state() in ENDED:
            progress.ended(each, "finished before; nothing to do.")
    waiting = [each for each in planned if each.state() not in ENDED]
    if check:
        _check_runs(waiting, data_dir, check, named=len(planned) > 1)
    ended = functools.partial(_after_run, cache, planned, on_run_end)
    if processes == 1 and len({each.config.simulated_replicas for each in waiting}) <= 1:
        _in_this_process(waiting, data_dir, run, progress, ended)
    else:
        run = functools.partial(_after_files, [os.path.abspath(file) for file in files], run)
        _in_processes(waiting, data_dir, run, processes, progress, ended, fork)


def _check_runs(waiting: Sequence[_Planned], data_dir: str | None, check: Callable[..., object], named: bool) -> None:
    for each in waiting:
        try:
            check(config=each.config, model_dir=each.directory, data_dir=data_dir)
        except InputError as error:
            raise NothingRun(f"{each.name}: {error}" if named else str(error)) from None


def _after_run(
    cache: ResultsCache | None, planned: Sequence[_Planned], on_run_end: Callable[[], object] | None
) -> None:
    if cache:
        cache.keep([each.directory for each in planned])
    if on_run_end:
        on_run_end()


@dataclasses.dataclass(frozen=True, eq=False)
class _Planned:
    """One run of the series."""

    entry: Entry
    seed: int
    directory: str
    config: ml_collections.ConfigDict

    @property
    def name(self) -> str:
        return f"{self.entry.name} at {self.config.batch_size:,}, seed {self.seed}"

    def status(self) -> dict[str, Any]:
        return RunDirectory(self.directory).status()

    def state(self) -> str | None:
        return self.status().get("status")


def _in_this_process(
    waiting: Sequence[_Planned],
    data_dir: str | None,
    run: Callable[..., object],
    progress: _Progress,
    ended: Callable[[], object],
) -> None:
    for each in waiting:
        progress.started(each)
        try:
            run(each.config, model_dir=each.directory, data_dir=data_dir)
        except DivergedError as error:
            print(error, flush=True)
        progress.ended(each)
        ended()


def _after_files(files: Iterable[str], run: Callable[..., object], **arguments: Any) -> None:
    for file in files:
        experiment.execute(file)
    if allowed := arguments.pop("allowed", None):
        experiment_files.allow(allowed)
    run(**arguments)


def _in_processes(
    waiting: Sequence[_Planned],
    data_dir: str | None,
    run: Callable[..., object],
    processes: int,
    progress: _Progress,
    ended: Callable[[], object],
    fork: bool,
) -> None:
    if fork and len(waiting) > 1 and (reason := forking_refused()):
        print(f"each run imports TensorFlow anew: {reason}", flush=True)
    runs = {}
    for each in waiting:
        arguments = {"config": each.config, "model_dir": each.directory, "data_dir": data_dir}
        if remembered.is_allowed(each.config):
            arguments["allowed"] = experiment.find(each.config.experiment)[0]
        runs[Job(each.name, run, arguments, f"{each.directory}.log")] = each
    failed = []

    def one_ended(job: Job, code: int, logged: str) -> None:
        each = runs[job]
        progress.warned(logged)
        if each.state() in ENDED:
            progress.ended(each)
            ended()
        elif code == Preempted.exit_code or code == -signal.SIGTERM:
            progress.say(each, "stopped; it resumes from its checkpoint.")
        else:
            failed.append(job)
            progress.say(each, f"FAILED with exit code {code}; the end of {job.log}:")
            for line in logged.rstrip().splitlines()[-_LOG_LINES:]:
                print(f"    {line}", flush=True)

    run_jobs(list(runs), processes, one_ended, fork, _PRELOAD)
    if failed:
        logs = "\n  ".join(f"{job.name}: see {job.log}" for job in failed)
        raise InputError(f"{len(failed)} of {len(waiting)} runs failed, and the others finished:\n  {logs}")


class _Progress:
    """Prints the progress of a series."""

    def __init__(self, planned: Sequence[_Planned], processes: int) -> None:
        self._planned = planned
        self._processes = processes
        self._done: set[_Planned] = set()
        self._warnings: set[str] = set()
        self._metric = Metric.of_task(planned[0].config.task, planned[0].config.evaluate_on)

    def started(self, each: _Planned) -> None:
        print(f"\n[{len(self._done) + 1}/{len(self._planned)}] {each.name}", flush=True)

    def ended(self, each: _Planned, words: str | None = None) -> None:
        """Prints a finished run with its metric, its seconds and the time left, or with other words."""
        self._done.add(each)
        status = each.status()
        value = status.get("metrics", {}).get(self._metric.name)
        shown = status["status"] if value is None else f"{self._metric.title} {self._metric.shown(value)}"
        if words is None:
            left = self._seconds_left()
            words = f"{status.get('seconds', 0.0):.0f} s; " + (f"about {_duration(left)} left" if left else "the last")
        self.say(each, f"{shown}, {words}")

    def warned(self, logged: str) -> None:
        """Prints the warnings of a run's log, each once: a change of a field gives many runs the same."""
        for line in logged.splitlines():
            if line.startswith("warning ") and line not in self._warnings:
                self._warnings.add(line)
                print(line, flush=True)

    def say(self, each: _Planned, words: str) -> None:
        print(f"[{len(self._done)}/{len(self._planned)}] {each.name}: {words}", flush=True)

    def _seconds_left(self) -> float:
        """Estimated from the mean of the finished runs of the same entry, or of all if there is none."""
        seconds = {each: each.status().get("seconds", 0.0) for each in self._done}
        if not seconds:
            return 0.0
        total = 0.0
        for each in set(self._planned) - self._done:
            same_entry = [value for other, value in seconds.items() if other.entry is each.entry]
            expected = statistics.fmean(same_entry or seconds.values())
            total += max(0.0, expected - each.status().get("seconds", 0.0))
        return total / self._processes


def _duration(seconds: float) -> str:
    for size, unit, enough in ((3600, "h", 7200), (60, "min", 120)):
        if seconds >= enough:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
