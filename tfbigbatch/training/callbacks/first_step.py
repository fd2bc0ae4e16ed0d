"""The end of a run's start: its first step."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from tfbigbatch.training.callbacks.base import Logs, StepCallback
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
        self._timings.steps = step - before
        self._timings.mark("first_step")
        self._done(step)
