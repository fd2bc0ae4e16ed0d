"""Stopping on request, with nothing lost."""

import signal
import threading

from tfbigbatch.errors import Preempted
from tfbigbatch.training.callbacks.base import StepCallback


class StopOnSignal(StepCallback):
    """On SIGTERM or Ctrl-C: finishes the update in flight, saves, and raises Preempted.

    For one process; a cluster's workers would stop at different updates.

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
        self._requested = True

    def on_steps(self, before, step, logs):
        if self._requested:
            self._checkpoints.save(step)
            raise Preempted(f"stopped on request after step {step:,}, and saved; the same command goes on from there.")
