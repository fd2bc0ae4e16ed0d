"""Evaluation in the course of a run."""

from tfbigbatch.training.callbacks.base import StepCallback, crosses


class Evaluation(StepCallback):
    """Evaluates at the end of `fit`'s epochs that reach a multiple of `every`, or the last update.

    Args:
      model: the compiled Keras model.
      dataset, steps: for `model.evaluate`; every example once, under a mask.
      log: MetricsLog.
      every, last_step: in updates.
      histograms: also write histograms of the weights to TensorBoard.
      is_enough: None, or a function of the measured metrics; the first for which it is true end the run.
      mlperf: None, or a MLPerfLog to tell of each evaluation.
      checks: called after each evaluation; one that finds something wrong with its data raises.
    """

    def __init__(
        self,
        model,
        dataset,
        steps,
        log,
        *,
        every,
        last_step,
        histograms=False,
        is_enough=None,
        mlperf=None,
        checks=(),
    ):
        super().__init__()
        self._model = model
        self._dataset = dataset
        self._steps = steps
        self._log = log
        self._every = every
        self._last_step = last_step
        self._histograms = histograms
        self._is_enough = is_enough
        self._mlperf = mlperf
        self._checks = checks
        self.latest = {}

    def on_epoch_end(self, epoch, logs=None):
        if crosses(self._epoch_start, self.step, self._every) or self.step == self._last_step:
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
        measured = self._model.evaluate(self._dataset, steps=self._steps, verbose=0, return_dict=True)
        for check in self._checks:
            check()
        self.latest = measured
