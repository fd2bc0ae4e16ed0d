"""Finds the worker of a cluster that the others wait for.

In synchronous training every worker's step takes the same time: those that are done with their gradients wait in the
all-reduce for the slowest one. So the time from a worker's own gradients to the sum of all is shortest on the slowest
worker, and what another one spends beyond that it waited. Two clock readings in the step, and one small all-reduce at
each row of the log, tell it.
"""

from __future__ import annotations

import dataclasses
import socket
import time
from collections.abc import Callable, Sequence

import numpy as np

from tfbigbatch.runs.metrics_log import MetricsLog
from tfbigbatch.training.callbacks.base import Logs, StepCallback, crosses
from tfbigbatch.training.reduction_time import ReductionTime

_TOLD = 0.2  # The fraction of a step's time waited from which a line names the slowest worker.
_AGAIN = 600.0  # Seconds between two lines on the same worker.
_HOST_BYTES = 64


@dataclasses.dataclass(frozen=True)
class Waits:
    """What the workers of a cluster waited for each other in some steps.

    Attributes:
      fractions: of the steps' time, one for each worker: 0 for the slowest.
      slowest: index of the worker that the others waited for.
    """

    fractions: Sequence[float]

    @property
    def slowest(self) -> int:
        return int(np.argmin(self.fractions))

    @property
    def of_others(self) -> float:
        """The mean of the fraction that the other workers waited."""
        return sum(self.fractions) / max(1, len(self.fractions) - 1)


def waits(reduction_seconds: Sequence[float], step_seconds: float) -> Waits:
    """The Waits of steps that took `step_seconds` in all, of which each worker spent some in the reduction."""
    least = min(reduction_seconds)
    return Waits([min(1.0, (each - least) / step_seconds) for each in reduction_seconds])


class NameSlowestWorker(StepCallback):
    """Writes at the rows of the log how long each worker waited for the slowest, and names it in a line.

    Args:
      reduction: of this worker's steps.
      gather: function of a vector of this worker, float64 [n]; returns those of all, [workers, n]. All call it.
      log: where `waited/worker_N` is written, in rows of the split 'train'.
      every: steps between two rows.
      say: prints a line.

    Attributes:
      slowest: the worker that the others waited longest for at the last row: its index, host, and the fraction of the
        time that the others waited; None before the first.
    """

    def __init__(
        self,
        reduction: ReductionTime,
        gather: Callable[[np.ndarray], np.ndarray],
        log: MetricsLog,
        *,
        every: float,
        say: Callable[[str], None],
    ) -> None:
        super().__init__()
        self._reduction, self._gather, self._log, self._say = reduction, gather, log, say
        self.every = every
        self._hosts: list[str] = []
        self._told: tuple[int, float] | None = None
        self.slowest: dict[str, int | str | float] | None = None

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        super().on_epoch_begin(epoch, logs)
        self._restart()

    def _restart(self) -> None:
        self._reduction.take()
        self._begin, self._time = self.step, time.perf_counter()

    def on_steps(self, before: int, step: int, logs: Logs) -> None:
        if crosses(before, step, self.every):
            self._measure(logs)

    def _measure(self, logs: Logs) -> None:
        # The loop of steps is then done: TensorFlow runs it in the background of Python.
        for value in (logs or {}).values():
            float(value)
        if not self._hosts:
            name = socket.gethostname().encode()[:_HOST_BYTES].ljust(_HOST_BYTES, b"\0")
            names = self._gather(np.frombuffer(name, np.uint8).astype(np.float64))
            self._hosts = [bytes(each.astype(np.uint8)).rstrip(b"\0").decode(errors="replace") for each in names]
            # The first window compiles.
            self._restart()
            return
        seconds = time.perf_counter() - self._time
        found = waits(list(self._gather(np.array([self._reduction.take()]))[:, 0]), seconds)
        host = self._hosts[found.slowest]
        self.slowest = {"worker": found.slowest, "host": host, "others_waited": round(found.of_others, 4)}
        scalars = {f"waited/worker_{index}": each for index, each in enumerate(found.fractions)}
        self._log.write("train", self.step, {**scalars, "slowest_worker": float(found.slowest)})
        self._tell(found, host)
        self._restart()

    def _tell(self, found: Waits, host: str) -> None:
        now = time.monotonic()
        told = self._told is not None and self._told[0] == found.slowest and now - self._told[1] < _AGAIN
        if found.of_others >= _TOLD and not told:
            self._told = found.slowest, now
            self._say(
                f"slowest    worker {found.slowest} ({host}) at step {self.step:,}: the others waited "
                f"{found.of_others:.0%} of the time for it"
            )
