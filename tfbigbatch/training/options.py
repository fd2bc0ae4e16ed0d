"""The arguments of a run that are not part of its config; their checks, which need no TensorFlow."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

import ml_collections

from tfbigbatch import experiment, tasks
from tfbigbatch.cluster import tf_config
from tfbigbatch.errors import InputError, nearest
from tfbigbatch.experiment.checks import check_fields, check_plan
from tfbigbatch.runs import checkpoint_files, stored_run
from tfbigbatch.runs import extension as extensions
from tfbigbatch.runs.resume_rules import may_change
from tfbigbatch.runs.run_directory import RunDirectory
from tfbigbatch.training.mlperf import rules
from tfbigbatch.utils.startup import StartTimings

MODES = ("train", "eval", "train_and_eval")
STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker", "tpu")

Heartbeat = Callable[[str], None]
"""Called after every unit of progress with what was done ('step 300'); feeds the watchdog."""
WatchPreemption = Callable[[Callable[[str], None]], contextlib.AbstractContextManager[Any]]
"""A context-manager factory; takes a callback(reason) that is called on a preemption notice."""
LimitSave = Callable[[str], contextlib.AbstractContextManager[Any]]
"""A context-manager factory that limits the time of a save; takes what is saved, in words."""


def no_heartbeat(done: str) -> None:
    """The heartbeat of a run without a watchdog."""


def never_preempted(callback: Callable[[str], None]) -> contextlib.AbstractContextManager[Any]:
    """The preemption watch of a run that gets no notices."""
    return contextlib.nullcontext()


def no_save_limit(saved: str) -> contextlib.AbstractContextManager[Any]:
    """The limit of saves that may take for ever, or that the heartbeat limits."""
    return contextlib.nullcontext()


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The arguments of `train.run`, which documents the first and more usual ones.

    Attributes:
      strategy_name, tpu: see `training.strategy.choose`.
      profile_steps: None, or (first, last) step to profile.
      use_fake_data: made-up examples of the right shapes in place of the task's data.
      stop_after: None, or the step after which to return, with the run ready to be resumed.
      mlperf_log: None, or the file for a log by MLPerf's rules; see `training.mlperf.log`.
      heartbeat: feeds the watchdog; see `cluster.watchdog`.
      watch_preemption: see `cluster.preemption_notice`.
      limit_save: limits the time of each save; see `cluster.watchdog.limited`.
      timings: of the start of this run; the trainer completes them.
    """

    config: ml_collections.ConfigDict
    model_dir: str
    data_dir: str | None = None
    extend: bool = False
    init_from: str | None = None
    mode: str = "train_and_eval"
    strategy_name: str = "auto"
    tpu: str | None = None
    profile_steps: tuple[int, int] | None = None
    use_fake_data: bool = False
    stop_after: int | None = None
    mlperf_log: str | None = None
    callbacks: Sequence[Any] = ()
    heartbeat: Heartbeat = no_heartbeat
    watch_preemption: WatchPreemption = never_preempted
    limit_save: LimitSave = no_save_limit
    timings: StartTimings = dataclasses.field(default_factory=StartTimings)

    @property
    def trains(self) -> bool:
        """Whether the run trains, with or without evaluations."""
        return self.mode != "eval"


def check(options: RunOptions) -> None:
    """Checks all that can be checked before TensorFlow is imported, which takes seconds; writes nothing.

    Raises:
      ValueError: an option, a field of the config, the data or the run directory cannot be used.
    """
    config = options.config
    if options.mode not in MODES:
        raise InputError(f"--mode={options.mode} is unknown; expected one of {', '.join(MODES)}.")
    check_strategy(options.strategy_name)
    if "TF_CONFIG" in os.environ and tf_config.joins_cluster(options.strategy_name, options.tpu):
        tf_config.parse_tf_config(os.environ["TF_CONFIG"])
    check_fields(config)
    if options.mlperf_log:
        rules.check(config)
        if options.mode != "train_and_eval":
            raise InputError(
                f"--mlperf_log: its rules ask for evaluations; expected --mode=train_and_eval, not {options.mode}."
            )
    check_plan(config)
    files = RunDirectory(options.model_dir)
    files.check(config.to_dict(), but=may_change(config, options.mode, options.extend))
    content, status = files.content(), files.status()
    if options.extend and options.trains:
        extensions.requested(content, status, config.to_dict(), options.model_dir)
    if options.trains:
        _check_writable(options.model_dir)
    elif not checkpoint_files.paths(files.checkpoints):
        raise InputError(
            f"--mode=eval: {options.model_dir} holds no checkpoint. Train first, or give another --model_dir."
        )
    stored_run.origin(options.init_from, content, options.model_dir)
    if not options.use_fake_data and not is_finished(options):
        _check_data(config, options.data_dir)


def check_strategy(name: str) -> None:
    """Checks a value of `--strategy`.

    Raises:
      ValueError: there is no such strategy.
    """
    if name.lower() in ("gpu", "gpus", "cuda", "cpu"):
        raise InputError(
            f"--strategy={name} is unknown: devices are found by themselves. Leave the flag out: auto takes all GPUs "
            f"that TensorFlow sees, and the CPU where there is none. Known: {', '.join(STRATEGIES)}."
        )
    if name not in STRATEGIES:
        raise InputError(f"--strategy={name} is unknown. {nearest(name, STRATEGIES)}")


def is_finished(options: RunOptions) -> bool:
    """Whether the directory holds a run that ended, and that is not to be evaluated or extended."""
    files = RunDirectory(options.model_dir)
    return options.trains and not options.extend and extensions.is_finished(files.content(), files.status())


def _check_data(config: ml_collections.ConfigDict, data_dir: str | None) -> None:
    if data_dir is not None and "://" not in data_dir and not os.path.exists(data_dir):
        raise InputError(f"--data_dir={data_dir}: no such folder. Give the folder of the data of task {config.task}.")
    task = tasks.get(config.task)
    for phase in experiment.phases(config):
        task.check_data(phase.data.to_dict(), data_dir)


def _check_writable(path: str) -> None:
    """Checks that a directory can be made, or files in it."""
    existing = os.path.abspath(path)
    while not os.path.exists(existing):
        existing = os.path.dirname(existing)
    if not os.path.isdir(existing):
        raise InputError(f"--model_dir={path}: {existing} is a file; expected a directory.")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise InputError(f"--model_dir={path} cannot be written: no permission to write in {existing}.")
