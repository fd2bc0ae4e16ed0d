"""The progress of a run in the terminal, and TensorFlow's profile of some of its steps."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import tensorflow as tf

# Of the scalars of a row, those of a line, with their formats.
_OF_A_LINE = {"learning_rate": ".4g", "examples_per_second": ",.0f"}
_SECONDS = 30.0


class Progress:
    """Prints a line at each tenth of the run, and where the latest one is 30 seconds old.

    Args:
      step: at which this process begins.
      last_step: steps of the whole run.
      split: the held-out split that is evaluated.
      shows: False to print nothing, as in the workers of a cluster but one.

    Attributes:
      row: scalars of the latest row of the training.
      evaluated: metrics of the latest evaluation.
    """

    def __init__(self, step: int, last_step: int, split: str = "test", shows: bool = True) -> None:
        self._step, self._last_step = step, last_step
        self._split = split
        self._shows = shows
        self._said = time.monotonic()
        self.row: Mapping[str, float] = {}
        self.evaluated: Mapping[str, float] = {}

    def after_row(self, step: int) -> None:
        """Prints a line where one is due."""
        ends_a_tenth = step * 10 // self._last_step > self._step * 10 // self._last_step
        self._step = step
        if self._shows and (ends_a_tenth or time.monotonic() - self._said > _SECONDS):
            self._said = time.monotonic()
            print(self._line(step), flush=True)

    def _line(self, step: int) -> str:
        shown = {f"{self._split}_{name}": value for name, value in self.evaluated.items()}
        if "loss" in self.row:
            shown = {"loss": self.row["loss"], **shown}
        words = [f"{name} {value:.4f}" for name, value in shown.items()]
        words += [f"{name} {self.row[name]:{form}}" for name, form in _OF_A_LINE.items() if name in self.row]
        return "  ".join([f"step {step}/{self._last_step}", *words])


class Profile:
    """TensorFlow's profile of the steps (first, last], for TensorBoard's profile page.

    Args:
      directory: where it is written.
      steps: (first, last), or None for no profile.
      records: False in the workers of a cluster but one, which make the same calls.
    """

    def __init__(self, directory: str, steps: tuple[int, int] | None, records: bool = True) -> None:
        self._directory = directory
        self._records = records
        self._ends: Sequence[int] = steps or ()
        self._running = False

    def steps_left(self, step: int) -> float:
        """Steps to its next beginning or end; infinity after it."""
        return min((each - step for each in self._ends if each > step), default=float("inf"))

    def at_step(self, step: int) -> None:
        """Begins or ends the profile where `step` is its first or last one."""
        if self._records and self._ends and not self._running and self._ends[0] <= step < self._ends[1]:
            tf.profiler.experimental.start(self._directory)
            self._running = True
        elif self._running and step >= self._ends[1]:
            self.close()

    def close(self) -> None:
        """Ends a profile that is being recorded."""
        if self._running:
            tf.profiler.experimental.stop()
        self._running = False
