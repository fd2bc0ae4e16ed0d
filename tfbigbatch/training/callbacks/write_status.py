"""Writes the step of a run that is in progress into status.json."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tfbigbatch.training.callbacks.base import Logs, StepCallback, crosses


class WriteStatus(StepCallback):
    """Writes the step at the intervals of the log, and after each evaluation, but seldom enough to cost nothing.

    Args:
      write: called with the step.
      every: steps between two rows of the log.
      seconds: the least between two writes.
    """

    SECONDS = 10.0

    def __init__(self, write: Callable[[int], Any], *, every: float, seconds: float | None = None) -> None:
        super().__init__()
        self._write = write
        self._every = every
        self._seconds = self.SECONDS if seconds is None else seconds
        self._written = time.monotonic()

    def on_steps(self, before: int, step: int, logs: Logs) -> None:
        if crosses(before, step, self._every):
            self._write_if_due()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self._write_if_due()

    def _write_if_due(self) -> None:
        now = time.monotonic()
        if now - self._written >= self._seconds:
            self._written = now
            self._write(self.step)
