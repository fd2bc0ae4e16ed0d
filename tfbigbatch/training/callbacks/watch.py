"""Callbacks that watch the steps of a run: its start, its progress, its status, and what must stop it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfbigbatch.errors import DivergedError, Preempted
from tfbigbatch.training.callbacks.base import Logs, StepCallback, crosses
from tfbigbatch.training.checkpoints import Checkpoints
from tfbigbatch.utils.signals import StopRequest
from tfbigbatch.utils.startup import StartTimings


class FirstStep(StepCallback):
    """Completes the timings of a start with the first call of the training function; then it does nothing.

    It is the first of the callbacks, so that what the others do does not count.

    Args:
      timings: of the start.
      done: called once with the step, when the timings are complete.
    """

    def __init__(self, timings: StartTimings, done: Callable[[int], None]) -> None:
        super().__init__()
        self._timings = timings
        self._done = done

    def on_steps(self, before: int, step: int, logs: Logs) -> None:
        if self._timings.is_complete:
            return
        # An accelerator returns before it is done; a value is there when it is.
        for value in (logs or {}).values():
            tf.convert_to_tensor(value).numpy()
        self._timings.mark("first_step")
        self._done(step)


class Heartbeat(StepCallback):
    """Calls a function with what was done after every step, evaluated batch and evaluation.

    Args:
      heartbeat: callable(str), such as `cluster.watchdog.Watchdog.heartbeat`.
    """

    def __init__(self, heartbeat: Callable[[str], None]) -> None:
        super().__init__()
        self._heartbeat = heartbeat

    def on_train_begin(self, logs: Logs = None) -> None:
        super().on_train_begin(logs)
        self._heartbeat(f"step {self.step:,}")

    def on_steps(self, before: int, step: int, logs: Logs) -> None:
        self._heartbeat(f"step {step:,}")

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self._heartbeat(f"evaluation or checkpoint after step {self.step:,}")

    def on_test_batch_end(self, batch: int, logs: Logs = None) -> None:
        self._heartbeat(f"evaluated batch {batch + 1:,}")

    on_predict_batch_end = on_test_batch_end


class Checks(StepCallback):
    """Calls each of a task's `checks` after every loop of steps; one that fails raises, as of too many bad records."""

    def __init__(self, checks: Sequence[Callable[[], None]]) -> None:
        super().__init__()
        self._checks = checks

    def on_steps(self, before: int, step: int, logs: Logs) -> None:
        for check in self._checks:
            check()


class StopOnNonFinite(StepCallback):
    """Raises DivergedError when a metric is NaN or infinite, with its name and the window of steps.

    Put it before the callback that saves checkpoints.

    Args:
      every: steps between two readings of the metrics.
    """

    def __init__(self, every: float) -> None:
        super().__init__()
        self._every = every
        self._finite_at = 0

    def on_train_begin(self, logs: Logs = None) -> None:
        super().on_train_begin(logs)
        self._finite_at = self.step

    def on_steps(self, before: int, step: int, logs: Logs) -> None:
        if crosses(before, step, self._every):
            self._check(logs)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self._check(logs)

    def _check(self, logs: Logs) -> None:
        for name, value in (logs or {}).items():
            if not math.isfinite(float(value)):
                raise DivergedError(
                    f"{name} became {float(value)} between step {self._finite_at} and step {self.step}."
                )
        self._finite_at = self.step


class WriteStatus(StepCallback):
    """Writes the step at the intervals of the log, and after each evaluation, but seldom enough to cost nothing.

    Args:
      write: called with the step.
      every: steps between two rows of the log.
    """

    SECONDS = 10.0  # The least between two writes.

    def __init__(self, write: Callable[[int], Any], *, every: float) -> None:
        super().__init__()
        self._write = write
        self._every = every
        self._written = time.monotonic()

    def on_steps(self, before: int, step: int, logs: Logs) -> None:
        if crosses(before, step, self._every):
            self._write_if_due()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self._write_if_due()

    def _write_if_due(self) -> None:
        now = time.monotonic()
        if now - self._written >= self.SECONDS:
            self._written = now
            self._write(self.step)


class Profile(StepCallback):
    """Records TensorFlow's profile of the steps (first, last] for TensorBoard's profile page.

    Args:
      directory: where the profile is written.
      first, last: in steps; widened to whole executions of `steps_per_execution`.
      steps_per_execution: steps in one call of the device's loop.
    """

    def __init__(self, directory: str, first: int, last: int, steps_per_execution: int = 1) -> None:
        super().__init__()
        self._directory = directory
        self._first = first
        self._last = last
        self._steps_per_execution = steps_per_execution
        self._running = False

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        start = self._epoch_start + batch
        if not self._running and start < self._last and start + self._steps_per_execution > self._first:
            tf.profiler.experimental.start(self._directory)
            self._running = True

    def on_steps(self, before: int, step: int, logs: Logs) -> None:
        if self._running and step >= self._last:
            self._stop()

    def on_train_end(self, logs: Logs = None) -> None:
        if self._running:
            self._stop()

    def _stop(self) -> None:
        tf.profiler.experimental.stop()
        self._running = False


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
