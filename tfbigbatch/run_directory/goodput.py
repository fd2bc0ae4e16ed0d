"""Goodput: the seconds in which a run made new steps, over the wall seconds since it began.

The term of Google's ML Goodput. All seconds of a run belong to one part, so that their sum is the wall time: from the
start of its first process to now, over all resumptions, with the time in which no process ran.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfbigbatch.run_directory.directory import DONE
from tfbigbatch.utils.startup import StartTimings

NAME = "goodput"
"""Name of the content in status.json, and of the tags in TensorBoard."""

PARTS = {
    "useful": "steps, each counted once",
    "input": "steps that waited for a batch, and input pipelines built",
    "compile": "tracing, compiling and the first call of the training step",
    "save": "training held up by checkpoints",
    "evaluate": "evaluations",
    "restarts": "starts of processes, the time in which none ran, and steps that were lost and made again",
}
"""The parts of the wall time, in the order of tables."""


class Goodput:
    """Divides the seconds of a process among the parts, beginning with those of the processes before.

    Seconds between two calls of `content` are of steps, less those of `timed` and of waits for batches. Writing the log
    and the instruments count as steps.

    Args:
      status: content of the status.json that the process before left; {} for a new run.
      timings: of this process's start, up to its first step.
      step: that this process begins at.
      reached: the last step that a process before made; those in between are repeated.

    Attributes:
      waited: None, or a function of the seconds in which steps of this process waited for batches so far.
    """

    def __init__(self, status: Mapping[str, Any], timings: StartTimings, *, step: int = 0, reached: int = 0) -> None:
        before = status.get(NAME) or {}
        self.waited: Callable[[], float] | None = None
        self._seconds = {name: float(before.get(name, 0.0)) for name in PARTS}
        self._starts = int(before.get("starts", 0)) + 1
        self._repeated = int(before.get("repeated_steps", 0)) + max(0, reached - step)
        # Steps up to this one are repeated.
        self._reached = reached
        self._step = step
        self._timings = timings
        self._mark: float | None = None
        self._timed = self._waited = 0.0
        # A finished run that is trained for longer was not waiting.
        if before and status.get("status") != DONE:
            self._seconds["restarts"] += max(0.0, time.time() - timings.elapsed() - float(before["time"]))

    def started(self, step: int) -> None:
        """The first call of the training function ended at `step`: the timings are complete."""
        for name, seconds in self._timings.seconds.items():
            part = {"tracing": "compile", "first_step": "compile", "evaluation": "evaluate"}.get(name, "restarts")
            self._seconds[part] += seconds
        self._mark, self._waited, self._step = time.perf_counter(), self.waited() if self.waited else 0.0, step

    @contextlib.contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """A context whose seconds belong to a part; one within another has its own."""
        began, inner = time.perf_counter(), self._timed
        try:
            yield
        finally:
            # Before the first step they are of the start.
            if self._mark is not None:
                seconds = time.perf_counter() - began - (self._timed - inner)
                self._seconds[part] += seconds
                self._timed += seconds

    def content(self, step: int) -> dict[str, Any]:
        """The fraction, the seconds by part, their sum as 'wall', counts, and the time; for status.json.

        Args:
          step: that the run is at.
        """
        seconds = dict(self._seconds)
        if self._mark is None:
            seconds["restarts"] += self._timings.elapsed()
        else:
            seconds = self._seconds = self._with_steps(step)
        wall = sum(seconds.values())
        return {
            "fraction": round(seconds["useful"] / wall, 4) if wall else 0.0,
            "wall": round(wall, 3),
            **{name: round(value, 3) for name, value in seconds.items()},
            "repeated_steps": self._repeated,
            "starts": self._starts,
            "time": round(time.time(), 3),
        }

    def _with_steps(self, step: int) -> dict[str, float]:
        """The seconds by part with those of the steps since the last call."""
        assert self._mark is not None
        now, waited = time.perf_counter(), self.waited() if self.waited else 0.0
        spent = max(0.0, now - self._mark - self._timed)
        input_seconds = min(spent, waited - self._waited)
        spent -= input_seconds
        made, repeated = step - self._step, min(step, self._reached) - self._step
        again = max(0, repeated) / made if made > 0 else float(step < self._reached)
        self._mark, self._timed, self._waited, self._step = now, 0.0, waited, max(step, self._step)
        added = {"input": input_seconds, "restarts": again * spent, "useful": (1.0 - again) * spent}
        return {name: value + added.get(name, 0.0) for name, value in self._seconds.items()}
