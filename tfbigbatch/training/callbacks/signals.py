"""Stopping on request, with nothing lost."""

import signal
import threading

from tfbigbatch.errors import Preempted
from tfbigbatch.training.callbacks.base import StepCallback, crosses


class StopOnSignal(StepCallback):
    """On SIGTERM or Ctrl-C: finishes the update in flight, saves, and raises Preempted.

    A second signal interrupts at once. The workers of a cluster ask each other every few updates whether any was
    told to stop, and all stop after the same one.

    Args:
      checkpoints: Checkpoints.
      agree: None in one process; else a function of whether this worker wants to stop, that returns whether any does.
      every: with `agree`, how often the workers ask, in updates.
    """

    def __init__(self, checkpoints, agree=None, every=1):
        super().__init__()
        self._checkpoints = checkpoints
        self._agree = agree
        self._every = every
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
        if step - self._epoch_start < self.params["steps"] and self._to_stop(before, step):
            self._stop()

    def on_epoch_end(self, epoch, logs=None):
        if self._agree(self._requested) if self._agree else self._requested:
            self._stop()

    def _to_stop(self, before, step):
        if self._agree is None:
            return self._requested
        return crosses(before, step, self._every) and self._agree(self._requested)

    def _stop(self):
        self._checkpoints.save(self.step)
        raise Preempted(f"stopped on request after step {self.step:,}, and saved; the same command goes on from there.")
