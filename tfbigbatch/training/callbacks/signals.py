"""Stopping on request, with nothing lost."""

import signal
import threading

from tfbigbatch.errors import Preempted
from tfbigbatch.training.callbacks.base import StepCallback, crosses

_ENDS = (signal.SIGTERM, signal.SIGINT)


class StopOnSignal(StepCallback):
    """On SIGTERM, Ctrl-C or SIGUSR1: finishes the update in flight, saves, and raises Preempted.

    A second SIGTERM or Ctrl-C interrupts at once; SIGUSR1 is but a warning, as Slurm sends one a while before. The
    workers of a cluster ask each other every few updates whether any was told to stop, and all stop after the same one.

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
        self._told_to_end = False
        self._why = "on request"
        self._previous = {}

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            for number in (*_ENDS, signal.SIGUSR1):
                self._previous[number] = signal.signal(number, self._request)
        return self

    def __exit__(self, *unused):
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def request(self, why):
        """Asks for a stop as SIGUSR1 does, from any thread.

        Args:
          why: in words, for the message.
        """
        self._why = f"since {why},"
        self._requested = True

    def _request(self, number, frame):
        if number in _ENDS and self._told_to_end:
            raise KeyboardInterrupt
        self._told_to_end |= number in _ENDS
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
        self._checkpoints.wait()
        raise Preempted(
            f"stopped {self._why} after step {self.step:,}, and saved; the same command goes on from there."
        )
