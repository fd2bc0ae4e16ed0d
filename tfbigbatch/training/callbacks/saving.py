"""Checkpoints during training."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tfbigbatch.training.callbacks.base import Logs, StepCallback, crosses
from tfbigbatch.training.checkpoints import Checkpoints


class SaveCheckpoints(StepCallback):
    """Saves at the end of `fit`'s epochs that reach a multiple of `every`, or are the last of the run.

    With `seconds` also at the first row of the log, or end of an evaluation, that comes so long after the last save: a
    kill costs that time at most, beside the steps of a row and an evaluation. Rows of the log end there, so that a
    resumed run writes the same ones.

    Args:
      checkpoints: what saves.
      every, last_step: in steps.
      saved: called with the step after each save.
      offset: the multiples of `every` are of step + offset.
      seconds: None, or the most between two saves.
      log_every: steps between two rows of the log.
      agree: function of whether this worker is to save; returns whether any worker is.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        *,
        every: float,
        last_step: int,
        saved: Callable[[int], Any],
        offset: float = 0,
        seconds: float | None = None,
        log_every: float = 1,
        agree: Callable[[bool], bool] = bool,
    ) -> None:
        super().__init__()
        self._checkpoints = checkpoints
        self._every = every
        self._last_step = last_step
        self._saved = saved
        self._offset = offset
        self._seconds = seconds
        self._log_every = log_every
        self._agree = agree
        self._last = time.monotonic()

    def on_steps(self, before: int, step: int, logs: Logs) -> None:
        # At the end of an interval the evaluation comes first.
        if step - self._epoch_start < self.params["steps"] and crosses(before, step, self._log_every):
            self._save_in_time()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        last = self.step == self._last_step or self.model.stop_training
        if last or crosses(self._epoch_start, self.step, self._every, self._offset):
            self._save()
        else:
            self._save_in_time()

    def _save_in_time(self) -> None:
        if self._seconds is not None and self._agree(time.monotonic() - self._last >= self._seconds):
            self._save()

    def _save(self) -> None:
        self._checkpoints.save(self.step)
        self._last = time.monotonic()
        self._saved(self.step)
