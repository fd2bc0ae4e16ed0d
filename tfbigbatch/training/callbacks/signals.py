"""Stopping on request, with nothing lost."""

import signal
import threading

from tfbigbatch.errors import Preempted
from tfbigbatch.training.callbacks.base import StepCallback


class StopOnSignal(StepCallback):
    """On SIGTERM or Ctrl-C: finishes the update in flight, saves, and raises Preempted.

    A second signal interrupts at once. For one process; a cluster's workers would stop at different updates.

    Args:
      checkpoints: Checkpoints.
    """

    def __init__(self, checkpoints):
        super().__init__()
        self._checkpoints = checkpoints
        self._requested = False
        self._previous = {}

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._previous[number] = signal.signal(number, self._request)
        return self

    def __exit__(self, *unused):
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _request(self, number, frame):
        if self._requested:
            raise KeyboardInterrupt
        self._requested = True

    def on_steps(self, before, step, logs):
        # At the end of an interval its evaluation comes first: nobody would make up for it later.
        if self._requested and step - self._epoch_start < self.params["steps"]:
            self._stop()

    def on_epoch_end(self, epoch, logs=None):
        if self._requested:
            self._stop()

    def _stop(self):
        self._checkpoints.save(self.step)
        raise Preempted(f"stopped on request after step {self.step:,}, and saved; the same command goes on from there.")
