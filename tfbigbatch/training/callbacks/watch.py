"""Callbacks that watch the steps of a run: its start, its progress, its status, and what must stop it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfbigbatch.errors import DivergedError
from tfbigbatch.training.callbacks.base import Logs, StepCallback, crosses
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
