"""What a person at the terminal sees of a run."""

import sys
import time

import tf_keras

from tfbigbatch.training.callbacks.base import StepCallback, crosses


class Progress(StepCallback):
    """A progress bar over the whole run on a terminal; elsewhere a line at each tenth of it.

    Args:
      last_step: updates of the whole run.
      split: the held-out set that it measures.
    """

    _BETWEEN_DRAWINGS = 0.2  # seconds

    def __init__(self, last_step, split="test"):
        super().__init__()
        self._last_step = last_step
        self._evaluation = None
        self._split = split
        self._bar = None
        self._drawn = 0.0
        self._logs = {}

    def beside(self, evaluation):
        """Itself, which from now on shows the latest result of an Evaluation beside the loss."""
        self._evaluation = evaluation
        return self

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        if self._bar is None and sys.stdout.isatty():
            self._bar = tf_keras.utils.Progbar(self._last_step, unit_name="step")

    def on_steps(self, before, step, logs):
        self._logs = logs
        now = time.monotonic()
        if self._bar is not None and now - self._drawn > self._BETWEEN_DRAWINGS and step < self._last_step:
            self._drawn = now
            self._bar.update(step, self._shown())

    def on_epoch_end(self, epoch, logs=None):
        if self._bar is not None:
            if self.step == self._last_step:
                self._bar.update(self.step, self._shown(), finalize=True)
        elif crosses(self._epoch_start * 10, self.step * 10, self._last_step):
            shown = "  ".join(f"{name} {value:.4f}" for name, value in self._shown())
            print(f"step {self.step}/{self._last_step}  {shown}", flush=True)

    def _shown(self):
        shown = {name: float(value) for name, value in self._logs.items() if name == "loss"}
        shown.update({f"{self._split}_{name}": value for name, value in self._evaluation.latest.items()})
        if self._bar is not None:
            # Stateful: shown as they are, not averaged.
            self._bar.stateful_metrics.update(shown)
        return list(shown.items())
