"""Several experiments at several seeds, in this process or in several at once; resumable."""

import dataclasses
import functools
import os
import signal
import statistics

from tfbigbatch import experiment
from tfbigbatch.errors import DivergedError, InputError, Preempted
from tfbigbatch.runs.metric import Metric
from tfbigbatch.runs.run_directory import RunDirectory
from tfbigbatch.studies.results_cache import ENDED, EndedRuns
from tfbigbatch.utils.processes import Job, run_jobs

_LOG_LINES = 8


def run_series(entries, *, model_dir, data_dir=None, run, files=(), processes=1, ended_runs=None, ended=None):
    """Runs every entry at every seed, each in its own run directory; those that have ended are not run again.

    A run that diverged has ended as well: it would diverge again. Two single-threaded processes train more
    images a second than one with two threads, which is what `processes` is for. In a process of its own, a
    run's output goes to the file seed-SEED.log beside its run directory.

    Args:
      entries: list of `entry.Entry`.
      model_dir: run directories are MODEL_DIR/FOLDER/seed-SEED.
      data_dir: where the task's data lies.
      run: `tfbigbatch.train.run`.
      files: paths of the experiment or study files that the entries come from. A process of its own executes them
        first, for the optimizers that they register.
      processes: how many runs at once; 1 runs them in this process, one after the other.
      ended_runs: None, or path of a file (see `ended_runs.EndedRuns`) that keeps the runs that have ended. Those
        that it holds and `model_dir` does not, as on another machine, are not run again.
      ended: function without arguments, called after each run that ends.

    Raises:
      ValueError: a directory holds a run of another config, or `ended_runs` is no such file (nothing is run); or
        runs failed; the message names them all. With several processes, the others are run first.
      Preempted: Ctrl-C or SIGTERM came; the runs were saved.
    """
    if processes < 1:
        raise InputError(f"--processes={processes}: expected 1 or more.")
    planned = [
        _Planned(entry, seed, entry.directory(model_dir, seed), entry.config_at(seed))
        for entry in entries
        for seed in entry.seeds
    ]
    kept = EndedRuns(ended_runs) if ended_runs else None
    for each in planned:
        RunDirectory(each.directory).check(each.config.to_dict())
    if kept:
        for each in planned:
            kept.restore(each.directory, each.config.to_dict())
    progress = _Progress(planned, processes)
    for each in planned:
        if each.state() in ENDED:
            progress.ended(each, "ended before; nothing to do.")
    waiting = [each for each in planned if each.state() not in ENDED]

    def one_ended():
        if kept:
            kept.keep([each.directory for each in planned])
        if ended:
            ended()

    if processes == 1:
        _in_this_process(waiting, data_dir, run, progress, one_ended)
    else:
        run = functools.partial(_after_files, [os.path.abspath(file) for file in files], run)
        _in_processes(waiting, data_dir, run, processes, progress, one_ended)


@dataclasses.dataclass(frozen=True, eq=False)
class _Planned:
    """One run of the series."""

    entry: object
    seed: int
    directory: str
    config: object

    @property
    def name(self):
        return f"{self.entry.name} at {self.config.batch_size:,}, seed {self.seed}"

    def status(self):
        return RunDirectory(self.directory).status()

    def state(self):
        return self.status().get("status")


def _in_this_process(waiting, data_dir, run, progress, ended):
    for each in waiting:
        progress.started(each)
        try:
            run(each.config, model_dir=each.directory, data_dir=data_dir)
        except DivergedError as error:
            print(error, flush=True)
        progress.ended(each)
        ended()


def _after_files(files, run, **arguments):
    for file in files:
        experiment.execute(file)
    run(**arguments)


def _in_processes(waiting, data_dir, run, processes, progress, ended):
    runs = {}
    for each in waiting:
        arguments = {"config": each.config, "model_dir": each.directory, "data_dir": data_dir}
        runs[Job(each.name, run, arguments, f"{each.directory}.log")] = each
    failed = []

    def one_ended(job, code, logged):
        each = runs[job]
        if each.state() in ENDED:
            progress.ended(each)
            ended()
        elif code == Preempted.exit_code or code == -signal.SIGTERM:
            progress.say(each, "stopped; it goes on from its checkpoint.")
        else:
            failed.append(job)
            progress.say(each, f"FAILED with exit code {code}; the end of {job.log}:")
            for line in logged.rstrip().splitlines()[-_LOG_LINES:]:
                print(f"    {line}", flush=True)

    run_jobs(list(runs), processes, one_ended)
    if failed:
        logs = "\n  ".join(f"{job.name}: see {job.log}" for job in failed)
        raise InputError(f"{len(failed)} of {len(waiting)} runs failed, and the others ended:\n  {logs}")


class _Progress:
    """What a person at the terminal sees of a series."""

    def __init__(self, planned, processes):
        self._planned = planned
        self._processes = processes
        self._done = set()
        self._metric = Metric.of_task(planned[0].config.task, planned[0].config.evaluate_on)

    def started(self, each):
        print(f"\n[{len(self._done) + 1}/{len(self._planned)}] {each.name}", flush=True)

    def ended(self, each, words=None):
        """Shows a run that has ended, with its metric, its seconds and the time left; or with other words."""
        self._done.add(each)
        status = each.status()
        value = status.get("metrics", {}).get(self._metric.name)
        shown = status["status"] if value is None else f"{self._metric.title} {self._metric.shown(value)}"
        if words is None:
            left = self._seconds_left()
            words = f"{status.get('seconds', 0.0):.0f} s; " + (f"about {_duration(left)} left" if left else "the last")
        self.say(each, f"{shown}, {words}")

    def say(self, each, words):
        print(f"[{len(self._done)}/{len(self._planned)}] {each.name}: {words}", flush=True)

    def _seconds_left(self):
        """From the mean of the ended runs of the same entry, or of all where there is none."""
        seconds = {each: each.status().get("seconds", 0.0) for each in self._done}
        if not seconds:
            return 0.0
        total = 0.0
        for each in set(self._planned) - self._done:
            alike = [value for other, value in seconds.items() if other.entry is each.entry]
            expected = statistics.fmean(alike or seconds.values())
            total += max(0.0, expected - each.status().get("seconds", 0.0))
        return total / self._processes


def _duration(seconds):
    for size, unit, enough in ((3600, "h", 7200), (60, "min", 120)):
        if seconds >= enough:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
