"""Evaluation in the course of a run."""

from tfbigbatch.training.callbacks.base import StepCallback, crosses


class Evaluation(StepCallback):
    """Evaluates at the end of `fit`'s epochs that reach a multiple of `every`, or the last update.

    Args:
      measure: function without arguments that measures now, and returns a dictionary of metrics.
      log: MetricsLog.
      every, last_step: in updates.
      histograms: also write histograms of the weights to TensorBoard.
      is_enough: None, or a function of the measured metrics; the first for which it is true end the run.
      mlperf: None, or a MLPerfLog to tell of each evaluation.
    """

    def __init__(self, measure, log, *, every, last_step, histograms=False, is_enough=None, mlperf=None):
        super().__init__()
        self._measure = measure
        self._log = log
        self._every = every
        self._last_step = last_step
        self._histograms = histograms
        self._is_enough = is_enough
        self._mlperf = mlperf
        self.latest = {}

    def on_epoch_end(self, epoch, logs=None):
        if crosses(self._epoch_start, self.step, self._every) or self.step == self._last_step:
            self._evaluate()

    def is_due(self, step):
        """Whether update `step` has an evaluation."""
        return step > 0 and (crosses(step - 1, step, self._every) or step == self._last_step)

    def make_up(self, model, step):
        """Evaluates `model` as after update `step`: the run was stopped before it had done so."""
        self.set_model(model)
        self.step = step
        self._evaluate()

    def _evaluate(self):
        if self._mlperf:
            self._mlperf.evaluation_begins(self.step)
        self.measure()
        if self.reached:
            self.model.stop_training = True
        if self._mlperf:
            goes_on = not self.reached and self.step < self._last_step
            self._mlperf.evaluation_ends(self.step, self.latest, goes_on)
        self._log.write("eval", self.step, self.latest)
        if self._histograms:
            self._log.write_histograms(self.step, self.model.trainable_variables)

    @property
    def reached(self):
        """Whether what was measured last is enough."""
        return self._is_enough is not None and bool(self.latest) and self._is_enough(self.latest)

    def measure(self):
        """Evaluates now, into `latest`."""
        self.latest = self._measure()
