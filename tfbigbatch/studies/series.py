"""Runs several experiments at several seeds, in this process or by an executor; resumable."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import os
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import ml_collections

from tfbigbatch import experiment
from tfbigbatch.errors import DivergedError, InputError, Preempted, first_line
from tfbigbatch.experiment.files import was_named
from tfbigbatch.runs.metric import Metric
from tfbigbatch.runs.run_directory import RunDirectory
from tfbigbatch.studies.entry import Entry
from tfbigbatch.studies.local_processes import LocalProcesses, ProcessFailed
from tfbigbatch.studies.results_cache import ENDED, ResultsCache
from tfbigbatch.utils.home import expanded
from tfbigbatch.utils.signals import collecting_signals

_LOG_LINES = 8
_POLL = 0.1  # seconds


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
    executor: concurrent.futures.Executor | None = None,
    results_cache: str | None = None,
    on_run_end: Callable[[], object] | None = None,
    check: Callable[..., object] | None = None,
) -> None:
    """Runs every entry at every seed, each in its own run directory, except those that are finished.

    A diverged run counts as finished, as it would diverge again. Parallel runs pay off on one machine: two processes of
    one thread train more images per second than one of two. Output goes to seed-SEED.log beside the run directory.

    Args:
      entries: the rows.
      model_dir: run directories are MODEL_DIR/FOLDER/seed-SEED.
      data_dir: folder of the task's data.
      run: `tfbigbatch.train.run`.
      files: that other processes execute first, because they may register optimizers and tasks.
      processes: number of runs at once; 1 runs them in this process, unless their `simulated_replicas` differ, since
        TensorFlow's logical CPUs are those of a process.
      executor: runs the calls, in place of `processes`; its processes see the same run directories.
      results_cache: path of a `ResultsCache` of finished runs; those missing in `model_dir` are restored.
      on_run_end: called after each run.
      check: called for each run that is not finished with the arguments of `run`, before the first begins.

    Raises:
      NothingRun: `check` refused a run.
      ValueError: a directory holds a run of another config, or `results_cache` is another kind of file (nothing is
        run); or runs failed: the message names them, and the other parallel runs were finished first.
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
    cache = ResultsCache(results_cache) if results_cache else None
    for each in planned:
        RunDirectory(each.directory).check(each.config.to_dict())
    for each in planned:
        if cache:
            cache.restore(each.directory, each.config.to_dict())
    progress = _Progress(planned, processes)
    waiting = [each for each in planned if each.state() not in ENDED]
    for each in planned:
        if each not in waiting:
            progress.ended(each, "finished before; nothing to do.")
    for each in waiting if check else ():
        assert check is not None
        try:
            check(config=each.config, model_dir=each.directory, data_dir=data_dir)
        except InputError as error:
            raise NothingRun(f"{each.name}: {error}" if len(planned) > 1 else str(error)) from None

    def ended(each: _Planned) -> None:
        progress.ended(each)
        if cache:
            cache.keep([each.directory for each in planned])
        if on_run_end:
            on_run_end()

    if executor is None and processes == 1 and len({each.config.simulated_replicas for each in waiting}) <= 1:
        _in_this_process(waiting, data_dir, run, progress, ended)
    elif waiting:
        paths = [os.path.abspath(file) for file in files]
        with contextlib.nullcontext(executor) if executor else LocalProcesses(processes) as workers:
            _in_other_processes(waiting, data_dir, run, paths, workers, progress, ended)


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
    ended: Callable[[_Planned], object],
) -> None:
    for each in waiting:
        progress.started(each)
        try:
            run(each.config, model_dir=each.directory, data_dir=data_dir)
        except DivergedError as error:
            print(error, flush=True)
        ended(each)


def _run_after_files(run: Callable[..., object], files: Sequence[str], **arguments: Any) -> object:
    """One run in another process, which executes the files that register what it needs."""
    for file in files:
        experiment.execute(file)
    return run(**arguments)


def _in_other_processes(
    waiting: Sequence[_Planned],
    data_dir: str | None,
    run: Callable[..., object],
    files: Sequence[str],
    executor: concurrent.futures.Executor,
    progress: _Progress,
    ended: Callable[[_Planned], object],
) -> None:
    runs = {}
    for each in waiting:
        own = experiment.find(each.config.experiment)[0]
        # An experiment's file that the user named here is executed there too.
        needed = [*files, own] if was_named(own) and own not in files else files
        arguments = {"config": each.config, "model_dir": each.directory, "data_dir": data_dir}
        runs[executor.submit(_run_after_files, run, needed, **arguments)] = each
    failed: list[str] = []
    left = set(runs)
    with collecting_signals() as signals:
        try:
            while left:
                done, left = concurrent.futures.wait(left, _POLL, concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    _one_ended(runs[future], future, progress, ended, failed)
                if signals:
                    left = _stopped(executor, left, at_once=len(signals) > 1)
        finally:
            # Runs are left only after an error in this process.
            _stopped(executor, left)
    if signals:
        raise Preempted("stopped on request; the same command resumes.")
    if failed:
        logs = "\n  ".join(failed)
        raise InputError(f"{len(failed)} of {len(waiting)} runs failed, and the others finished:\n  {logs}")


def _one_ended(
    each: _Planned,
    future: concurrent.futures.Future[Any],
    progress: _Progress,
    ended: Callable[[_Planned], object],
    failed: list[str],
) -> None:
    """Prints what became of a run."""
    error = future.exception()
    logged = error.logged if isinstance(error, ProcessFailed) else future.result() if error is None else ""
    if isinstance(logged, str):
        progress.warned(logged)
    if each.state() in ENDED:
        ended(each)
    elif isinstance(error, Preempted):
        progress.say(each, "stopped; it resumes from its checkpoint.")
    else:
        log = f"see {error.log}" if isinstance(error, ProcessFailed) else first_line(error) if error else "not finished"
        failed.append(f"{each.name}: {log}")
        progress.say(each, str(error))
        for line in str(logged).rstrip().splitlines()[-_LOG_LINES:]:
            print(f"    {line}", flush=True)


def _stopped(
    executor: concurrent.futures.Executor, left: set[concurrent.futures.Future[Any]], at_once: bool = False
) -> set[concurrent.futures.Future[Any]]:
    """Cancels the runs that have not begun, and stops the others where the executor can; gives the others."""
    left = {future for future in left if not future.cancel()}
    if isinstance(executor, LocalProcesses):
        executor.stop(at_once)
    return left


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
