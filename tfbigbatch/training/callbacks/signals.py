"""Stops a run on a signal or a preemption notice, after saving it."""

from __future__ import annotations

from collections.abc import Callable

import tf_keras

from tfbigbatch.errors import Preempted
from tfbigbatch.training.callbacks.base import Logs, StepCallback, crosses
from tfbigbatch.training.checkpoints import Checkpoints
from tfbigbatch.utils.signals import StopRequest

# How often the workers of a cluster agree on stopping while they evaluate.
_EVALUATED_BATCHES = 10


class StopOnSignal(StepCallback):
    """On SIGTERM, Ctrl-C, SIGUSR1 or a preemption notice: finishes the current step, saves, and raises Preempted.

    A second SIGTERM or Ctrl-C interrupts at once. SIGUSR1 (Slurm's early warning) and preemption notices do not count
    towards it. The workers of a cluster agree every few steps whether one of them was asked to stop, and all stop
    after the same step.

    Args:
      checkpoints: what saves.
      request: the request to stop, whose context `handling` is around the training.
      agree: None in one process; in a cluster, a function of whether this worker is to stop, that returns whether any
        worker is.
      every: how often the workers agree, in steps.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        request: StopRequest,
        agree: Callable[[bool], bool] | None = None,
        every: float = 1,
    ) -> None:
        super().__init__()
        self._checkpoints = checkpoints
        self._request = request
        self._agree = agree
        self._every = every

    @property
    def in_evaluation(self) -> tf_keras.callbacks.Callback:
        """A callback for `evaluate` and `predict`: stops between two batches, and leaves the evaluation unfinished."""
        return _InEvaluation(self)

    def on_steps(self, before: int, step: int, logs: Logs) -> None:
        # At the end of an interval the other callbacks are called first.
        if step - self._epoch_start < self.params["steps"]:
            self.stop_if_requested(before, step, self._every)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self.stop_if_requested()

    def stop_if_requested(self, before: int = 0, now: int = 1, every: float = 1) -> None:
        """Saves and raises Preempted where a stop was requested.

        All workers of a cluster call it after the same steps or batches (before, now], and agree once in `every` of
        them; at each call by default.
        """
        if self._agree is None:
            stop = self._request.requested
        else:
            stop = crosses(before, now, every) and self._agree(self._request.requested)
        if stop:
            self._checkpoints.save(self.step)
            raise Preempted(
                f"stopped {self._request.reason} after step {self.step:,}, and saved; the same command resumes it."
            )

    def stop_before_first_step(self, step: int) -> None:
        """Raises Preempted where a stop was requested while the run of a cluster was set up; nothing is saved.

        Args:
          step: steps done before.
        """
        if self._agree is not None and self._agree(self._request.requested):
            raise Preempted(
                f"stopped {self._request.reason} at step {step:,}, before a step was made, with nothing new to save; "
                "the same command resumes it."
            )


class _InEvaluation(tf_keras.callbacks.Callback):
    """A separate callback, because Keras gives a callback the parameters of the loop that it is in."""

    _supports_tf_logs = True

    def __init__(self, stop: StopOnSignal) -> None:
        super().__init__()
        self._stop = stop
        self._batches = 0

    def on_test_begin(self, logs: Logs = None) -> None:
        self._batches = 0
        self._stop.stop_if_requested()

    on_predict_begin = on_test_begin

    def on_test_batch_end(self, batch: int, logs: Logs = None) -> None:
        self._batches += 1
        self._stop.stop_if_requested(self._batches - 1, self._batches, _EVALUATED_BATCHES)

    on_predict_batch_end = on_test_batch_end
