"""Checkpoints during training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfbigbatch.training.callbacks.base import Logs, StepCallback, crosses
from tfbigbatch.training.checkpoints import Checkpoints


class SaveCheckpoints(StepCallback):
    """Saves at the end of `fit`'s epochs that reach a multiple of `every`, or are the last of the run.

    Args:
      checkpoints: what saves.
      every, last_step: in steps.
      saved: called with the step after each save.
      offset: the multiples of `every` are of step + offset.
    """

    def __init__(
        self, checkpoints: Checkpoints, *, every: float, last_step: int, saved: Callable[[int], Any], offset: float = 0
    ) -> None:
        super().__init__()
        self._checkpoints = checkpoints
        self._every = every
        self._last_step = last_step
        self._saved = saved
        self._offset = offset

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        last = self.step == self._last_step or self.model.stop_training
        if last or crosses(self._epoch_start, self.step, self._every, self._offset):
            self._checkpoints.save(self.step)
            self._saved(self.step)
