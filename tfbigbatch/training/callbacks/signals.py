"""Stopping on request, with nothing lost."""

import signal
import threading

import tf_keras

from tfbigbatch.errors import Preempted
from tfbigbatch.training.callbacks.base import StepCallback, crosses

_ENDS = (signal.SIGTERM, signal.SIGINT)
# How often the workers of a cluster ask each other while they evaluate.
_EVALUATED_BATCHES = 10


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

    @property
    def in_evaluation(self):
        """A callback for `evaluate` and `predict`: there it stops between two batches, and leaves the rest undone."""
        return _InEvaluation(self)

    def on_steps(self, before, step, logs):
        # At the end of an interval the other callbacks still have their word.
        if step - self._epoch_start < self.params["steps"]:
            self.stop_if_asked(before, step, self._every)

    def on_epoch_end(self, epoch, logs=None):
        self.stop_if_asked()

    def stop_if_asked(self, before=0, now=1, every=1):
        """Saves and raises Preempted where a stop was asked for.

        A cluster's workers all call it alike, after the updates or batches (before, now], and ask each other once in
        `every` of them: each time, where nothing is said.
        """
        if self._agree is None:
            asked = self._requested
        else:
            asked = crosses(before, now, every) and self._agree(self._requested)
        if asked:
            self._stop()

    def _stop(self):
        self._checkpoints.save(self.step)
        self._checkpoints.wait()
        raise Preempted(
            f"stopped {self._why} after step {self.step:,}, and saved; the same command goes on from there."
        )


class _InEvaluation(tf_keras.callbacks.Callback):
    """Of its own, since Keras gives a callback the parameters of the loop that it is in: here `evaluate`'s."""

    _supports_tf_logs = True

    def __init__(self, stop):
        super().__init__()
        self._stop = stop
        self._batches = 0

    def on_test_begin(self, logs=None):
        self._batches = 0
        self._stop.stop_if_asked()

    on_predict_begin = on_test_begin

    def on_test_batch_end(self, batch, logs=None):
        self._batches += 1
        self._stop.stop_if_asked(self._batches - 1, self._batches, _EVALUATED_BATCHES)

    on_predict_batch_end = on_test_batch_end
