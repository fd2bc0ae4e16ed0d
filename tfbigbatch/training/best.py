"""The checkpoint of the best evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tfbigbatch.run_directory import checkpoint_files
from tfbigbatch.run_directory.checkpoint_files import Best
from tfbigbatch.run_directory.directory import RunDirectory
from tfbigbatch.run_directory.metric import Metric
from tfbigbatch.run_directory.metrics_log import read_rows
from tfbigbatch.training.checkpoints import Checkpoints

# The run is resumed from one of its newest checkpoints, or from the one before it if that is damaged.
_RESUMABLE = 2


class BestCheckpoint:
    """Keeps the checkpoint of the best evaluation in the run's folder `best`.

    A step that was saved anyway is linked, another one is saved. The chief decides for all workers of a cluster.

    Args:
      checkpoints: what saves.
      files: the run directory.
      metric: that is compared.
      agree: function of whether this worker wants something; returns whether any worker does.

    Attributes:
      metric: as given.
      best: the evaluation that is kept, or None.
    """

    def __init__(
        self, checkpoints: Checkpoints, files: RunDirectory, metric: Metric, agree: Callable[[bool], bool]
    ) -> None:
        self._checkpoints = checkpoints
        self._files, self._folder = files, files.best
        self._agree = agree
        self.metric = metric
        self.best: Best | None = None

    def resume(self, step: int) -> None:
        """Finds the best up to `step`, at which the run is resumed; checkpoints after it are removed."""
        if not self._files.is_chief:
            return
        evaluations = [row for row in read_rows(self._files.metrics) if row["step"] <= step]
        checkpoint_files.drop(self._folder, after=step)
        best = checkpoint_files.best_row(evaluations, self.metric)
        if best and best.step not in checkpoint_files.steps(self._folder):
            # The run was killed in between, or kept no best one before.
            if best.step in checkpoint_files.steps(self._checkpoints.directory):
                checkpoint_files.add(checkpoint_files.path_of(self._checkpoints.directory, best.step), self._folder)
            else:
                best = checkpoint_files.best_row(evaluations, self.metric, checkpoint_files.steps(self._folder))
        if best:
            checkpoint_files.drop(self._folder, after=best.step)
        self.best = best

    def consider(self, step: int, metrics: Mapping[str, float]) -> bool:
        """Keeps the checkpoint of `step` if its metrics are the best, and returns whether; all workers call it."""
        value = metrics.get(self.metric.name)
        is_best = self._files.is_chief and checkpoint_files.is_better(value, self.best, self.metric)
        if value is None or not self._agree(is_best):
            return False
        saved = checkpoint_files.steps(self._checkpoints.directory) if self._files.is_chief else []
        is_saved = self._agree(step in saved)
        if not is_saved:
            self._checkpoints.save_in(self._folder, step)
        self.best = Best(step, value)
        if self._files.is_chief:
            if is_saved:
                checkpoint_files.add(checkpoint_files.path_of(self._checkpoints.directory, step), self._folder)
            checkpoint_files.prune(self._folder, saved[:_RESUMABLE])
        return True

    def path(self) -> str:
        """The checkpoint of the best evaluation, without the endings of its files."""
        return checkpoint_files.path_of(self._folder, self.best.step) if self.best else ""
