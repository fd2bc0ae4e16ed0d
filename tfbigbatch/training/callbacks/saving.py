"""Checkpoints during training, and the one of the best evaluation."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tfbigbatch.runs import checkpoint_files
from tfbigbatch.runs.checkpoint_files import Best
from tfbigbatch.runs.metric import Metric
from tfbigbatch.training.callbacks.base import Logs, StepCallback, crosses
from tfbigbatch.training.callbacks.logs import Evaluation
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


# The run is resumed from one of its newest checkpoints, or from the one before it if that is damaged.
_RESUMABLE = 2


class KeepBest(StepCallback):
    """Keeps the checkpoint of the best evaluation in the run's folder `best`; put it behind SaveCheckpoints.

    A step that was saved anyway is linked, another one is saved. The chief decides for all workers of a cluster.

    Args:
      checkpoints: what saves.
      folder: of the best checkpoint.
      metric: that is compared.
      agree: function of whether this worker wants something; returns whether any worker does.
      is_chief: whether this process writes the folder.
      kept: called with the step when a checkpoint was kept.

    Attributes:
      best: the evaluation that is kept, or None.
      evaluation: None, or the Evaluation of the current phase.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        folder: str,
        metric: Metric,
        *,
        agree: Callable[[bool], bool],
        is_chief: bool = True,
        kept: Callable[[int], Any],
    ) -> None:
        super().__init__()
        self._checkpoints = checkpoints
        self._folder = folder
        self._metric = metric
        self._agree = agree
        self._is_chief = is_chief
        self._kept = kept
        self.best: Best | None = None
        self.evaluation: Evaluation | None = None

    def resume(self, step: int, rows: Iterable[Mapping[str, Any]]) -> None:
        """Finds the best up to `step`, at which the run is resumed; checkpoints after it are removed.

        Args:
          step: of the restored checkpoint.
          rows: of metrics.jsonl.
        """
        if not self._is_chief:
            return
        evaluations = [row for row in rows if row["step"] <= step]
        checkpoint_files.drop(self._folder, after=step)
        best = checkpoint_files.best_row(evaluations, self._metric)
        if best and best.step not in checkpoint_files.steps(self._folder):
            # The run was killed in between, or kept no best one before.
            path = self._checkpoints.path_of(best.step)
            if path:
                checkpoint_files.add(path, self._folder)
            else:
                best = checkpoint_files.best_row(evaluations, self._metric, checkpoint_files.steps(self._folder))
        if best:
            checkpoint_files.drop(self._folder, after=best.step)
        self.best = best

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if self.evaluation and self.evaluation.latest_step == self.step:
            self.consider(self.step, self.evaluation.latest)

    def consider(self, step: int, metrics: Mapping[str, float]) -> None:
        """Keeps the checkpoint of `step` if its metrics are the best; all workers call it."""
        value = metrics.get(self._metric.name)
        is_best = self._is_chief and checkpoint_files.is_better(value, self.best, self._metric)
        if value is None or not self._agree(is_best):
            return
        is_saved = self._agree(self._is_chief and self._checkpoints.path_of(step) is not None)
        if not is_saved:
            self._checkpoints.save_in(self._folder, step)
        self.best = Best(step, value)
        if self._is_chief:
            if is_saved:
                checkpoint_files.add(str(self._checkpoints.path_of(step)), self._folder)
            checkpoint_files.prune(self._folder, self._checkpoints.steps()[:_RESUMABLE])
        self._kept(step)

    def path(self) -> str:
        """The checkpoint of the best evaluation, without the endings of its files."""
        return os.path.join(self._folder, f"{checkpoint_files.NAME}-{self.best.step}") if self.best else ""
