"""The arguments of a run that are not part of its config."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import ml_collections

MODES = ("train", "eval", "train_and_eval")

Heartbeat = Callable[[str], None]
"""Called after every unit of progress with what was done ('step 300'); feeds the watchdog."""
WatchPreemption = Callable[[Callable[[str], None]], contextlib.AbstractContextManager[Any]]
"""A context-manager factory; takes a callback(reason) that is called on a preemption notice."""


def no_heartbeat(done: str) -> None:
    """The heartbeat of a run without a watchdog."""


def never_preempted(callback: Callable[[str], None]) -> contextlib.AbstractContextManager[Any]:
    """The preemption watch of a run that gets no notices."""
    return contextlib.nullcontext()


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The arguments of `train.run`, which documents them."""

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

    @property
    def trains(self) -> bool:
        """Whether the run trains, with or without evaluations."""
        return self.mode != "eval"
