"""Evaluation during training."""

from __future__ import annotations

from collections.abc import Callable

import tf_keras

from tfbigbatch.training.callbacks.base import Logs, StepCallback, crosses
from tfbigbatch.training.metrics_log import MetricsLog
from tfbigbatch.training.mlperf.log import MLPerfLog

Metrics = dict[str, float]


class Evaluation(StepCallback):
    """Evaluates at the end of `fit`'s epochs that reach a multiple of `every`, or the last step.

    Args:
      evaluate: returns the metrics of the current weights.
      log: where they are written.
      every: in steps.
      last_step: it is evaluated too; 0 for none.
      offset: the multiples of `every` are of step + offset.
      histograms: also write histograms of the weights to TensorBoard.
      is_enough: None, or a function of the metrics; the run ends with the first evaluation for which it is true.
      mlperf: None, or the log that records each evaluation.

    Attributes:
      latest: the metrics of the latest evaluation; {} before the first.
      latest_step: the step of the latest evaluation that was logged; None before the first.
    """

    def __init__(
        self,
        evaluate: Callable[[], Metrics],
        log: MetricsLog,
        *,
        every: float,
        last_step: int,
        offset: float = 0,
        histograms: bool = False,
        is_enough: Callable[[Metrics], bool] | None = None,
        mlperf: MLPerfLog | None = None,
    ) -> None:
        super().__init__()
        self._evaluate = evaluate
        self._log = log
        self._every = every
        self._last_step = last_step
        self._offset = offset
        self._histograms = histograms
        self._is_enough = is_enough
        self._mlperf = mlperf
        self.latest: Metrics = {}
        self.latest_step: int | None = None

    @property
    def reached(self) -> bool:
        """True if the latest evaluation is enough to end the run."""
        return self._is_enough is not None and bool(self.latest) and self._is_enough(self.latest)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if crosses(self._epoch_start, self.step, self._every, self._offset) or self.step == self._last_step:
            self._evaluate_and_log()

    def is_owed(self, step: int) -> bool:
        """True if `step` should have been evaluated and was not: the run was stopped during the evaluation."""
        is_due = step > 0 and (crosses(step - 1, step, self._every, self._offset) or step == self._last_step)
        return is_due and not self._log.has("eval", step)

    def make_up(self, model: tf_keras.Model, step: int) -> None:
        """Runs the evaluation of `step` that is owed."""
        self.set_model(model)
        self.step = step
        self._evaluate_and_log()

    def measure(self) -> None:
        """Evaluates into `latest`, and logs nothing."""
        self.latest = self._evaluate()

    def _evaluate_and_log(self) -> None:
        if self._mlperf:
            self._mlperf.evaluation_begins(self.step)
        self.measure()
        if self.reached:
            self.model.stop_training = True
        if self._mlperf:
            run_ends = self.reached or self.step >= self._last_step
            self._mlperf.evaluation_ends(self.step, self.latest, run_ends)
        self._log.write("eval", self.step, self.latest)
        self.latest_step = self.step
        if self._histograms:
            self._log.write_histograms(self.step, self.model.trainable_variables)
