"""The progress of a run on the terminal."""

from __future__ import annotations

import sys
import time

import tf_keras

from tfbigbatch.training.callbacks.base import Logs, StepCallback, crosses
from tfbigbatch.training.callbacks.evaluation import Evaluation
from tfbigbatch.training.callbacks.step_metrics import StepMetrics

# Of the scalars of a window of steps, those of a line, with their formats.
_OF_A_LINE = {"learning_rate": ".4g", "examples_per_second": ",.0f"}


class Progress(StepCallback):
    """A progress bar over the whole run on a terminal; otherwise a line at each tenth of it, with rate and speed.

    Args:
      last_step: steps of the whole run.
      split: the held-out split that is evaluated.

    Attributes:
      evaluation: None, or the Evaluation whose latest metrics are shown with the loss.
      step_metrics: None, or the StepMetrics whose latest learning rate and examples a second a line shows.
    """

    _REDRAW_SECONDS = 0.2

    def __init__(self, last_step: int, split: str = "test") -> None:
        super().__init__()
        self._last_step = last_step
        self._split = split
        self._bar: tf_keras.utils.Progbar | None = None
        self._drawn = 0.0
        self._logs: Logs = {}
        self.evaluation: Evaluation | None = None
        self.step_metrics: StepMetrics | None = None

    def on_train_begin(self, logs: Logs = None) -> None:
        super().on_train_begin(logs)
        if self._bar is None and sys.stdout.isatty():
            self._bar = tf_keras.utils.Progbar(self._last_step, unit_name="step")

    def on_steps(self, before: int, step: int, logs: Logs) -> None:
        self._logs = logs
        now = time.monotonic()
        if self._bar is not None and now - self._drawn > self._REDRAW_SECONDS and step < self._last_step:
            self._drawn = now
            self._bar.update(step, self._shown())

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if self._bar is not None:
            if self.step == self._last_step:
                self._bar.update(self.step, self._shown(), finalize=True)
        elif crosses(self._epoch_start * 10, self.step * 10, self._last_step):
            shown = [f"{name} {value:.4f}" for name, value in self._shown()]
            latest = self.step_metrics.latest if self.step_metrics else {}
            shown += [f"{name} {latest[name]:{form}}" for name, form in _OF_A_LINE.items() if name in latest]
            print("  ".join([f"step {self.step}/{self._last_step}", *shown]), flush=True)

    def close(self) -> None:
        """Ends the line of a bar that did not reach its last step, so that the next line is not written behind it."""
        if self._bar is not None and self._drawn and self.step != self._last_step:
            print(flush=True)
        self._drawn = 0.0

    def _shown(self) -> list[tuple[str, float]]:
        shown = {name: float(value) for name, value in (self._logs or {}).items() if name == "loss"}
        metrics = self.evaluation.latest if self.evaluation else {}
        shown.update({f"{self._split}_{name}": value for name, value in metrics.items()})
        if self._bar is not None:
            # Stateful: shown as they are, not averaged.
            self._bar.stateful_metrics.update(shown)
        return list(shown.items())
