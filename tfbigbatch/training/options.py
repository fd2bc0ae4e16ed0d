"""The arguments of a run that are not part of its config."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import ml_collections

from tfbigbatch.errors import InputError, nearest
from tfbigbatch.utils.startup import StartTimings

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
      mlperf_log: None, or the file for a log by MLPerf's rules; see `training.mlperf.log`.
      heartbeat: feeds the watchdog; see `cluster.watchdog`.
      watch_preemption: see `cluster.preemption_notice`.
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
    watch_preemption: WatchPreemption = contextlib.nullcontext
    timings: StartTimings = dataclasses.field(default_factory=StartTimings)

    @property
    def trains(self) -> bool:
        """True if the run trains, with or without evaluations."""
        return self.mode != "eval"


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
