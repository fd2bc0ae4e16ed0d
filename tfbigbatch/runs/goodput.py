"""Goodput: the seconds in which a run made new steps, over the wall seconds since it began.

The term of Google's ML Goodput. All seconds of a run belong to one part, so that their sum is the wall time: from the
start of its first process to now, over all resumptions, with the time in which no process ran.
"""

from __future__ import annotations

import contextlib
import glob
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from tfbigbatch.runs import checkpoint_files
from tfbigbatch.runs.metrics_log import read_rows
from tfbigbatch.runs.run_directory import DONE, RunDirectory
from tfbigbatch.utils.startup import StartTimings

NAME = "goodput"
"""Name of the content in status.json, and of the tags in TensorBoard."""

PARTS = {
    "useful": "steps, each counted once",
    "start": "start of the first process, to its first step",
    "compile": "tracing and compiling the training step",
    "input": "steps that waited for a batch, and input pipelines built",
    "save": "training held up by checkpoints",
    "evaluate": "evaluations",
    "repeated": "steps that were made before, and lost",
    "restart": "from the end of a process to the first step of the next",
}
"""The parts of the wall time, in the order of tables."""


class HasSeconds(Protocol):
    """What measures seconds."""

    seconds: float


class Goodput:
    """Divides the seconds of a process among the parts, beginning with those of the processes before.

    Seconds between two calls of `advance` are of steps, less those of `timed`. Writing the log and the instruments
    count as steps.

    Args:
      before: `content` of the process before; {} for the first.
      timings: of this process's start, up to its first step.
      ended: when the process before ended, in seconds since the epoch; None for the first, and where the time since
        then is not to count.
      reached: the step that it had reached, at least.
      step: that this process begins at.

    Attributes:
      seconds: by part.
      input_wait: None, or what has the `seconds` in which steps of this process waited for a batch.
    """

    def __init__(
        self,
        before: Mapping[str, Any],
        timings: StartTimings,
        *,
        ended: float | None = None,
        reached: int = 0,
        step: int = 0,
    ) -> None:
        self.seconds = {name: float(before.get(name, 0.0)) for name in PARTS}
        self.input_wait: HasSeconds | None = None
        self._timings = timings
        self._starts = int(before.get("starts", 0)) + 1
        # Seconds are counted up to this step; what was made after it is lost, or was counted as lost.
        self._counted = int(before.get("step", 0))
        self._repeated = int(before.get("repeated_steps", 0)) + max(0, reached - step)
        self._step = step
        self._first = not before
        self._has_started = False
        self._first_call: tuple[float, int] | None = None
        self._timed = 0.0
        self._waited = 0.0
        self._mark = time.perf_counter()
        if before and ended is not None:
            written = float(before.get("time", ended))
            unwritten = max(0.0, ended - written)
            # What a checkpoint holds of the steps since the record was written is not lost.
            kept = max(0, step - self._counted) / max(1, reached - self._counted, step - self._counted)
            self.seconds["useful"] += kept * unwritten
            self.seconds["repeated"] += (1.0 - kept) * unwritten
            self.seconds["restart"] += max(0.0, time.time() - timings.elapsed() - max(ended, written))
        self._counted = max(self._counted, step)

    def started(self, step: int) -> None:
        """The first call of the training function ended at `step`: the timings are complete."""
        spent = self._timings.seconds
        after = ("tracing", "first_step", "evaluation")
        self.seconds[self._origin] += sum(value for name, value in spent.items() if name not in after)
        self.seconds["evaluate"] += spent.get("evaluation", 0.0)
        # How much of the first call was compiling is known with the second.
        self.seconds["compile"] += spent.get("tracing", 0.0) + spent.get("first_step", 0.0)
        self._first_call = (spent.get("first_step", 0.0), step - self._step)
        self._has_started = True
        self._mark, self._timed, self._waited = time.perf_counter(), 0.0, self._wait()
        self._count_first(step)

    def advance(self, step: int) -> None:
        """The run has reached `step`, in this process."""
        if not self._has_started or step <= self._step:
            return
        steps, seconds = step - self._step, self._spent()
        if self._first_call is not None:
            first_seconds, first_steps = self._first_call
            self._first_call = None
            moved = min(first_seconds, seconds * first_steps / steps)
            self.seconds["compile"] -= moved
            self._add(moved, self._first_is_repeated)
        self._add(seconds, max(0, min(step, self._counted) - self._step) / steps)
        self._step = step

    @contextlib.contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """A context whose seconds belong to a part; one within another has its own."""
        if not self._has_started:
            yield
            return
        began, inner = time.perf_counter(), self._timed
        try:
            yield
        finally:
            seconds = time.perf_counter() - began - (self._timed - inner)
            self.seconds[part] += seconds
            self._timed += seconds

    def content(self) -> dict[str, Any]:
        """The fraction, the seconds by part, their sum as 'wall', counts, and the time; for status.json."""
        seconds = dict(self.seconds)
        if self._has_started:
            self._read_wait()
            # Steps in progress: `advance` counts them.
            seconds = dict(self.seconds)
            open_seconds = max(0.0, time.perf_counter() - self._mark - self._timed)
            seconds["repeated" if self._step < self._counted else "useful"] += open_seconds
        else:
            seconds[self._origin] += self._timings.elapsed()
        wall = sum(seconds.values())
        return {
            "fraction": round(seconds["useful"] / wall, 4) if wall else 0.0,
            "wall": round(wall, 3),
            **{name: round(max(0.0, value), 3) for name, value in seconds.items()},
            "repeated_steps": self._repeated,
            "starts": self._starts,
            "step": max(self._counted, self._step),
            "time": round(time.time(), 3),
        }

    @property
    def _origin(self) -> str:
        return "start" if self._first else "restart"

    def _count_first(self, step: int) -> None:
        steps = max(1, step - self._step)
        self._first_is_repeated = max(0, min(step, self._counted) - self._step) / steps
        self._step = step

    def _spent(self) -> float:
        """Seconds of steps since the last call."""
        now = time.perf_counter()
        seconds = max(0.0, now - self._mark - self._timed)
        self._mark, self._timed = now, 0.0
        return seconds

    def _read_wait(self) -> None:
        """Moves the seconds in which steps waited for a batch from the steps to their own part."""
        waited = self._wait() - self._waited
        self._waited += waited
        part = "repeated" if self._step < self._counted else "useful"
        moved = max(0.0, min(waited, self.seconds[part]))
        self.seconds[part] -= moved
        self.seconds["input"] += moved

    def _wait(self) -> float:
        return self.input_wait.seconds if self.input_wait else 0.0

    def _add(self, seconds: float, repeated: float) -> None:
        self.seconds["repeated"] += repeated * seconds
        self.seconds["useful"] += (1.0 - repeated) * seconds


def resumed(files: RunDirectory, status: Mapping[str, Any], timings: StartTimings, step: int) -> Goodput:
    """The Goodput of a process that begins at `step`, from what the one before left.

    Args:
      files: of the run.
      status: content of status.json; {} before the first.
      timings: of this process's start.
      step: of the restored checkpoint; 0 for none.
    """
    before = status.get(NAME) or {}
    if not before:
        # A new run, or one of an earlier version: it counts from here on.
        return Goodput({"step": step} if step else {}, timings, step=step)
    rows = [row["step"] for row in read_rows(files.metrics)]
    reached = max([status.get("step", 0), int(before.get("step", 0)), step, *rows])
    # A finished run that is trained for longer was not waiting.
    ended = None if status.get("status") == DONE else last_sign(files, before)
    return Goodput(before, timings, ended=ended, reached=reached, step=step)


def last_sign(files: RunDirectory, before: Mapping[str, Any]) -> float:
    """When a process last wrote status, a row of metrics or a checkpoint, in seconds since the epoch."""
    indices = glob.glob(os.path.join(glob.escape(files.checkpoints), f"{checkpoint_files.NAME}-*.index"))
    times = [float(before.get("time", 0.0))]
    for path in (files.metrics, *indices):
        with contextlib.suppress(OSError):
            times.append(os.path.getmtime(path))
    return min(time.time(), max(times))


def table_lines(runs: Sequence[tuple[str, Mapping[str, Any]]]) -> list[list[str]]:
    """The rows of a table after the row of headings: goodput, wall seconds, and the share of each part that there was.

    Args:
      runs: name and status of each run; those without goodput are left out.
    """
    found = [(name, status[NAME]) for name, status in runs if status.get(NAME)]
    if not found:
        return []
    shown = [part for part in PARTS if part != "useful" and any(each.get(part, 0.0) > 0.0 for _, each in found)]
    lines = [["run", "goodput", "wall seconds", *shown, "starts", "steps repeated"]]
    for name, each in found:
        wall = max(1e-9, each.get("wall", 0.0))
        lines.append(
            [
                name,
                f"{each.get('fraction', 0.0):.1%}",
                f"{each.get('wall', 0.0):,.1f}",
                *(f"{each.get(part, 0.0) / wall:.1%}" for part in shown),
                f"{each.get('starts', 1):,}",
                f"{each.get('repeated_steps', 0):,}",
            ]
        )
    return lines
