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
    """

    def __init__(self, model, dataset, steps, log, *, every, last_step, histograms=False):
        super().__init__()
        self._model = model
        self._dataset = dataset
        self._steps = steps
        self._log = log
        self._every = every
        self._last_step = last_step
        self._histograms = histograms
        self.latest = {}

    def on_epoch_end(self, epoch, logs=None):
        if crosses(self._epoch_start, self.step, self._every) or self.step == self._last_step:
            self.measure()
            self._log.write("eval", self.step, self.latest)
            if self._histograms:
                self._log.write_histograms(self.step, self.model.trainable_variables)

    def measure(self):
        """Evaluates now, into `latest`."""
        self.latest = self._model.evaluate(self._dataset, steps=self._steps, verbose=0, return_dict=True)
