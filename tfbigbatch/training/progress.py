"""The progress of a run in the terminal, and TensorFlow's profile of some of its steps."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from tfbigbatch.training.phases import crosses

# Of the scalars of a row, those of a line, with their formats.
_OF_A_LINE = {"learning_rate": ".4g", "examples_per_second": ",.0f"}
_REDRAW_SECONDS = 0.2


class Progress:
    """A line at each tenth of the run, and on a terminal one that is redrawn in place.

    Args:
      last_step: steps of the whole run.
      split: the held-out split that is evaluated.
      shows: False to print nothing, as in the workers of a cluster but one.

    Attributes:
      row: scalars of the latest row of the training.
      evaluated: metrics of the latest evaluation.
    """

    def __init__(self, last_step: int, split: str = "test", shows: bool = True) -> None:
        self._last_step = last_step
        self._split = split
        self._shows = shows
        # When a line was redrawn, and its length while it stands there.
        self._drawn, self._width = 0.0, 0
        self.row: Mapping[str, float] = {}
        self.evaluated: Mapping[str, float] = {}

    def redraw(self, step: int, means: Callable[[], Mapping[str, float]]) -> None:
        """Redraws the line where it stands on a terminal, a few times a second.

        Args:
          step: steps done.
          means: returns the means since the latest row, the loss among them; called only where the line is redrawn.
        """
        now = time.monotonic()
        if self._shows and now - self._drawn > _REDRAW_SECONDS and sys.stdout.isatty():
            self._drawn = now
            line = self._line(step, means().get("loss"))
            print(f"\r{line:<{self._width}}", end="", flush=True)
            self._width = len(line)

    def interval_ends(self, before: int, step: int) -> None:
        """Prints a line if a tenth of the run ended in the interval (before, step]."""
        if self._shows and crosses(before * 10, step * 10, self._last_step):
            start = "\r" if self._width else ""
            print(f"{start}{self._line(step, self.row.get('loss')):<{self._width}}", flush=True)
            self._width = 0

    def close(self) -> None:
        """Ends a line that was redrawn, so that the next one is not written behind it."""
        if self._width:
            print(flush=True)
        self._width = 0

    def _line(self, step: int, loss: float | None) -> str:
        shown = {} if loss is None else {"loss": loss}
        shown.update({f"{self._split}_{name}": value for name, value in self.evaluated.items()})
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
