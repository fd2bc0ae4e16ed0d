"""Checkpoints in the course of a run."""

from tfbigbatch.training.callbacks.base import StepCallback, crosses


class SaveCheckpoints(StepCallback):
    """Saves at the end of `fit`'s epochs that reach a multiple of `every`, or are the run's last.

    Args:
      checkpoints: Checkpoints.
      every, last_step: in updates.
      saved: called with the step after each save.
    """

    def __init__(self, checkpoints, *, every, last_step, saved):
        super().__init__()
        self._checkpoints = checkpoints
        self._every = every
        self._last_step = last_step
        self._saved = saved

    def on_steps(self, before, step, logs):
        # Of the last one, which may be written while training goes on.
        self._checkpoints.check()

    def on_epoch_end(self, epoch, logs=None):
        last = self.step == self._last_step or self.model.stop_training
        if last or crosses(self._epoch_start, self.step, self._every):
            self._checkpoints.save(self.step)
            self._saved(self.step)
