"""Paused runs that stay in memory: a later call in this process continues them, without building or tracing anything.

`tune` pauses each candidate several times, and a start takes as long as many steps of a small model.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from typing import Any

import ml_collections
import numpy as np

from tfbigbatch import tasks
from tfbigbatch.run_directory import checkpoint_files
from tfbigbatch.tasks.base import Task
from tfbigbatch.training import phases
from tfbigbatch.training.evaluate import Evaluator
from tfbigbatch.training.options import RunOptions
from tfbigbatch.training.setup import Machine, RunModel, RunPlan, Start
from tfbigbatch.training.step import TrainingSteps

# Bytes of the variables of all paused runs of a process: seven candidates of a network of 12 million weights.
_MOST = 2**30


@dataclasses.dataclass(frozen=True)
class PausedRun:
    """The parts of a run that has one phase, as `setup` made them.

    Attributes:
      start: what it began from; of a paused run, its pause.
      evaluator, steps: traced, where they were called.
    """

    machine: Machine
    plan: RunPlan
    model: RunModel
    start: Start
    evaluator: Evaluator
    steps: TrainingSteps

    @property
    def parts(self) -> tuple[Machine, RunPlan, RunModel, Start]:
        """Those that `setup` makes."""
        return self.machine, self.plan, self.model, self.start

    @property
    def size(self) -> int:
        """Bytes of the weights and of the optimizer's variables."""
        network = self.model.network
        variables: Iterable[Any] = [*network.variables, *network.optimizer.variables]
        return sum(int(np.prod(each.shape)) * np.dtype(each.dtype).itemsize for each in variables)


class PausedRuns:
    """The paused runs of a process, and the task that they share, since each would read the data by itself.

    Args:
      most: bytes of variables. Where they are full, a run takes the place of those that paused at an earlier step: a
        search has left them, or will continue them from the disk.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._runs: dict[str, tuple[RunOptions, str, PausedRun]] = {}
        self._task: tuple[Any, Task] | None = None

    def task_of(self, phase: ml_collections.ConfigDict, data_dir: str | None, use_fake_data: bool = False) -> Task:
        """As `phases.task_of`, but the one of the last call where that was of the same fields."""
        key = tasks.get(phase.task), phase.model.to_dict(), phase.data.to_dict(), data_dir, use_fake_data
        if self._task is None or self._task[0] != key:
            self._task = key, phases.task_of(phase, data_dir, use_fake_data)
        return self._task[1]

    def keep(self, options: RunOptions, run: PausedRun, step: int) -> None:
        """Keeps a run that paused at a step, where it has a checkpoint there, fits, and holds all of its state."""
        newest = run.start.checkpoints.latest()
        if newest is None or checkpoint_files.step_of(newest) != step or not _is_simple(options, run):
            return
        sizes = {path: kept.size for path, (_, _, kept) in self._runs.items()}
        for path in sorted(sizes, key=lambda path: self._runs[path][2].start.step):
            if sum(sizes.values()) + run.size <= self._most or self._runs[path][2].start.step >= step:
                break
            del self._runs[path], sizes[path]
        if sum(sizes.values()) + run.size <= self._most:
            start = dataclasses.replace(run.start, step=step, is_new=False)
            self._runs[options.model_dir] = options, _stamp(newest), dataclasses.replace(run, start=start)

    def take(self, options: RunOptions) -> PausedRun | None:
        """Takes out the run of a directory, to continue it; None where there is none, or another one than on the disk.

        The directory's files decide: another process may have continued the run, or begun another there.
        """
        before, stamp, run = self._runs.pop(options.model_dir, (options, "", None))
        newest = run.start.checkpoints.latest() if run else None
        if run is None or newest is None or _stamp(newest) != stamp or not _is_of(run, before, options):
            return None
        run.machine.say(f"continue   at step {run.start.step:,}, from memory")
        total = run.plan.total_steps
        plan = dataclasses.replace(run.plan, last_step=min(total, options.stop_after or total))
        return dataclasses.replace(run, plan=plan)

    def forget(self) -> None:
        """Lets go of all runs and of the task."""
        self._runs, self._task = {}, None


RUNS = PausedRuns()
"""Those of this process."""


def _is_simple(options: RunOptions, run: PausedRun) -> bool:
    """True if all that the run's next part begins from is in its parts."""
    return not (
        len(run.plan.phases) > 1
        or run.machine.is_multi_worker
        or run.model.run_instruments.instruments
        or options.callbacks
        or options.mlperf_log
    )


def _is_of(run: PausedRun, before: RunOptions, now: RunOptions) -> bool:
    """True if two calls are of one run, but for the step that they end at and whom they tell of their progress."""
    one, other = (
        (each.config.to_dict(), each.data_dir, each.mode, each.strategy_name, each.tpu, each.use_fake_data)
        for each in (before, now)
    )
    return one == other and type(run.plan.task) is tasks.get(now.config.task)


def _stamp(checkpoint: str) -> str:
    """A checkpoint's name and the time that it was written at."""
    return f"{checkpoint} {os.stat(f'{checkpoint}.index').st_mtime_ns}"
