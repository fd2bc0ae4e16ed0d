"""The arguments of a run beside its config; its checks before TensorFlow is imported, and the directory they find."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

import ml_collections

from tfbigbatch.cluster import tf_config
from tfbigbatch.config.recipe import check_fields, check_plan
from tfbigbatch.errors import InputError
from tfbigbatch.run_directory import checkpoint_files, stored_run
from tfbigbatch.run_directory.directory import RunDirectory
from tfbigbatch.training import mlperf
from tfbigbatch.utils import arguments

MODES = ("train", "eval", "train_and_eval")
STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker", "tpu")

Heartbeat = Callable[[str], None]
"""Called after every unit of progress with what was done ('step 300'); feeds the watchdog."""
WatchPreemption = Callable[[Callable[[str], None]], contextlib.AbstractContextManager[Any]]
"""A context-manager factory; takes a callback(reason) that is called on a preemption notice."""


def no_heartbeat(done: str) -> None:
    """The heartbeat of a run without a watchdog."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The arguments of `train.run`, which documents the first and more usual ones.

    Attributes:
      strategy_name, tpu: see `training.strategy.choose`.
      profile_steps: None, or (first, last) step to profile.
      use_fake_data: made-up examples of the right shapes in place of the task's data.
      stop_after: None, or the step after which to return, with the run ready to be resumed.
      in_memory: whether a run that `stop_after` pauses stays in memory too, where it is small; see `training.paused`.
      mlperf_log: None, or the file for a log by MLPerf's rules; see `training.mlperf`.
      heartbeat: feeds the watchdog; see `cluster.watchdog`.
      watch_preemption: see `cluster.preemption_notice`.
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
    in_memory: bool = False
    mlperf_log: str | None = None
    callbacks: Sequence[Any] = ()
    heartbeat: Heartbeat = no_heartbeat
    watch_preemption: WatchPreemption = contextlib.nullcontext

    @property
    def trains(self) -> bool:
        """True if the run trains, with or without evaluations."""
        return self.mode != "eval"


@dataclasses.dataclass(frozen=True)
class Directory:
    """The run directory as the run finds it.

    Attributes:
      files: reads and writes its files.
      changed: lines on the config fields that differ from the run's start.
      content: of config.json; None for a new run.
      status: the content of status.json; {} before the first.
      extension: None, or what is known of the finished run that is to be trained for longer.
      init_from: None, or where the run's first weights are from: 'path' as given, and the 'checkpoint' found there.
    """

    files: RunDirectory
    changed: Sequence[str]
    content: dict[str, Any] | None
    status: dict[str, Any]
    extension: dict[str, Any] | None = None
    init_from: dict[str, str] | None = None

    @property
    def is_finished(self) -> bool:
        """True if the run ended before, and is not to be extended."""
        return self.extension is None and stored_run.is_finished(self.content, self.status)


def check(options: RunOptions) -> Directory:
    """Checks all of a run that needs no TensorFlow, once; writes nothing.

    Returns:
      The run directory: new, or of the run's config.

    Raises:
      ValueError: an option, a field of the config, the data or the run directory cannot be used.
    """
    config, path = options.config, options.model_dir
    arguments.one_of("--mode", options.mode, MODES)
    if options.extend and not options.trains:
        raise InputError("--extend trains; --mode=eval does not. Leave one of them out.")
    arguments.one_of("--strategy", options.strategy_name, STRATEGIES)
    check_fields(config)
    if options.mlperf_log:
        mlperf.check(config)
        if options.mode != "train_and_eval":
            raise InputError(
                f"--mlperf_log: its rules ask for evaluations; expected --mode=train_and_eval, not {options.mode}."
            )
    check_plan(config)
    files = RunDirectory(path, tf_config.is_first(options.strategy_name, options.tpu))
    changed = files.check(config.to_dict(), but=stored_run.may_change(config, options.mode, options.extend))
    content, status = files.content(), files.status()
    extension = stored_run.requested_extension(content, status, config, path) if options.extend else None
    if not options.trains and not checkpoint_files.paths(files.checkpoints):
        raise InputError(f"--mode=eval: {path} holds no checkpoint. Train first, or give another --model_dir.")
    origin = stored_run.origin(options.init_from, content, path)
    found = Directory(files, changed, content, status, extension, origin)
    folder = options.data_dir
    if not (options.use_fake_data or found.is_finished and options.trains):
        if folder is not None and "://" not in folder and not os.path.exists(folder):
            raise InputError(f"--data_dir={folder}: no such folder. Give the folder of the data of task {config.task}.")
    return found
