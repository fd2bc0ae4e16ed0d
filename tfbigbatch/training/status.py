"""The status of a run while it trains: status.json, with its step, seconds and best evaluation."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from tfbigbatch.run_directory.directory import RUNNING, RunDirectory
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
      best: the checkpoint of the best evaluation.
      total_steps: of the run.
      seconds: training time of the processes before.
    """

    def __init__(
        self, files: RunDirectory, log: MetricsLog, best: BestCheckpoint, *, total_steps: int, seconds: float
    ) -> None:
        self._files, self._log, self._best = files, log, best
        self._total_steps = total_steps
        self._started = time.perf_counter() - seconds
        self._written = time.monotonic()

    def write_seldom(self, step: int) -> None:
        """Writes the step where the last such write is ten seconds ago or more, so that it costs nothing."""
        now = time.monotonic()
        if now - self._written >= _SECONDS:
            self._written = now
            self.write(RUNNING, step)

    def write(self, name: str, step: int, **fields: Any) -> Status:
        """Writes the status `name` at `step`, with further fields, and returns the content."""
        seconds = round(time.perf_counter() - self._started, 3)
        content = {"step": step, "total_steps": self._total_steps, "seconds": seconds, **fields}
        if self._best.best:
            content["best"] = {"metric": self._best.metric.name, **dataclasses.asdict(self._best.best)}
        self._log.flush()
        self._files.write_status(name, **content)
        return {"status": name, **content}
