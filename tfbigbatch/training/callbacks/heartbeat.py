"""Tells a watchdog that a run goes on."""

from tfbigbatch.training.callbacks.base import StepCallback


class SayAlive(StepCallback):
    """Calls a function with words for what was done last, after every update, evaluated batch and evaluation.

    Args:
      alive: function of a string, such as `cluster.watchdog.Watchdog.heartbeat`.
    """

    def __init__(self, alive):
        super().__init__()
        self._alive = alive

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        self._alive(f"update {self.step:,}")

    def on_steps(self, before, step, logs):
        self._alive(f"update {step:,}")

    def on_epoch_end(self, epoch, logs=None):
        self._alive(f"what follows update {self.step:,}")

    def on_test_batch_end(self, batch, logs=None):
        self._alive(f"evaluated batch {batch + 1:,}")

    def on_predict_batch_end(self, batch, logs=None):
        self._alive(f"evaluated batch {batch + 1:,}")
