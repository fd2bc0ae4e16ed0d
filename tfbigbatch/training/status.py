"""The status of a run while it trains: status.json, with its step, seconds and best evaluation."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from tfbigbatch.run_directory.directory import DONE, PREEMPTED, RUNNING, RunDirectory
from tfbigbatch.run_directory.metric import Metric
from tfbigbatch.training.best import BestCheckpoint
from tfbigbatch.training.log_rows import MetricsLog

Status = dict[str, Any]
"""The content of status.json: status, step, total_steps, seconds, and at the end the metrics."""

_SECONDS = 10.0  # The least between two writes of a step that nothing else asks for.


class RunStatus:
    """Writes status.json.

    Args:
      files: the run directory.
      log: of the metrics.
      total_steps: of the run.
      seconds: training time before this process.
      target: the metric of `best`.
      best: the checkpoint of the best evaluation.
    """

    def __init__(
        self,
        files: RunDirectory,
        log: MetricsLog,
        *,
        total_steps: int,
        seconds: float,
        target: Metric,
        best: BestCheckpoint,
    ) -> None:
        self._files, self._log = files, log
        self._total_steps = total_steps
        self._target, self._best = target, best
        self._before = self._saved_seconds = seconds
        self._started = time.perf_counter()
        self._written = time.monotonic()

    def saved(self, step: int) -> None:
        """Writes the status after a checkpoint; a resumed run counts its seconds from there."""
        self._saved_seconds = self._seconds()
        self.write(RUNNING, step)

    def write_seldom(self, step: int) -> None:
        """Writes the step where the last such write is ten seconds ago or more, so that it costs nothing."""
        now = time.monotonic()
        if now - self._written >= _SECONDS:
            self._written = now
            self.write(RUNNING, step)

    def write(self, name: str, step: int, **fields: Any) -> Status:
        """Writes the status `name` at `step`, with further fields, and returns the content."""
        seconds = self._seconds()
        if name in (DONE, PREEMPTED):
            self._saved_seconds = seconds
        content = {
            "step": step,
            "total_steps": self._total_steps,
            "seconds": round(seconds, 3),
            "saved_seconds": round(self._saved_seconds, 3),
            **fields,
        }
        if self._best.best:
            content["best"] = {"metric": self._target.name, **dataclasses.asdict(self._best.best)}
        self._log.flush()
        self._files.write_status(name, **content)
        return {"status": name, **content}

    def _seconds(self) -> float:
        return self._before + time.perf_counter() - self._started
