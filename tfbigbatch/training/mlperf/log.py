"""The log of a run in MLPerf's format; the values that the rules ask for are in rules.py.

mlperf-logging writes it, and its compliance checker accepts it:

    python -m mlperf_logging.compliance_checker --ruleset 4.0.0 FILE        5.0.0 for BERT, 0.7.0 for GNMT
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from tfbigbatch.errors import InputError


class MLPerfLog:
    """Writes the events of a run.

    A resumed run appends to the file: the rules have no resume, so such a log is not a submission.

    Args:
      path: the file.
      metric: the metric that is MLPerf's accuracy.
      unit: the value of the metric that the rules count as 1.

    Raises:
      ValueError: mlperf-logging is not installed, or the file cannot be written.
    """

    def __init__(self, path: str, metric: str, unit: float = 1.0) -> None:
        try:
            from mlperf_logging.mllog.mllog import MLLogger
        except ImportError:
            raise InputError(
                "--mlperf_log needs mlperf-logging, which is not installed: pip install 'tfbigbatch[mlperf]'."
            ) from None
        try:
            self._file = logging.FileHandler(path)
        except OSError as error:
            raise InputError(f"--mlperf_log={path} cannot be written: {error.strerror}.") from None
        logger = logging.Logger("tfbigbatch.mlperf", logging.INFO)
        logger.addHandler(self._file)
        # The file names of the callers, without this machine's folders before the package.
        self._log = MLLogger(
            logger, root_dir=os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
        )
        self._metric, self._unit = metric, unit
        # Set by `start`.
        self._steps_in_epoch, self._evaluate_every = 1.0, 0
        # What has begun and has not ended: its last event, with its metadata.
        self._unfinished: tuple[str, dict[str, float]] | None = None

    def init(self) -> None:
        """The preparation of the run begins."""
        self._log.event("cache_clear", True)
        self._log.start("init_start")

    def start(
        self,
        values: Mapping[str, Any],
        *,
        step: int,
        steps_in_epoch: float,
        evaluate_every: int,
        evaluates: bool = False,
    ) -> None:
        """The run begins.

        Args:
          values: from `rules.settings`.
          step: steps done before.
          steps_in_epoch: steps in an epoch.
          evaluate_every: steps between two evaluations.
          evaluates: whether it begins with an evaluation, the one that was not finished before.
        """
        for key, value in values.items():
            self._log.event(key, value)
        self._log.end("init_stop")
        self._log.start("run_start")
        self._steps_in_epoch, self._evaluate_every = steps_in_epoch, evaluate_every
        if not evaluates:
            self._begin_block(step)

    def evaluation_begins(self, step: int) -> None:
        """The evaluation after `step` begins."""
        self._end_unfinished()
        at = {"epoch_num": self._epochs(step)}
        self._log.start("eval_start", metadata=at)
        self._unfinished = "eval_stop", at

    def evaluation_ends(self, step: int, metrics: Mapping[str, float], run_ends: bool) -> None:
        """The evaluation after `step` gave `metrics`; `run_ends` where it is the last."""
        at = {"epoch_num": self._epochs(step)}
        self._log.event("eval_accuracy", metrics[self._metric] / self._unit, metadata=at)
        self._end_unfinished()
        if not run_ends:
            self._begin_block(step)

    def stop(self, reached: bool) -> None:
        """The run ends, with its target reached or not; closes the file.

        A block or an evaluation that was stopped ends here, the evaluation without an accuracy.
        """
        self._end_unfinished()
        self._log.end("run_stop", metadata={"status": "success" if reached else "aborted"})
        self._file.close()

    def _begin_block(self, step: int) -> None:
        # The rules count epochs from 1.
        block = {
            "first_epoch_num": self._epochs(step) + 1,
            "epoch_count": self._epochs(self._evaluate_every),
        }
        self._log.start("block_start", metadata=block)
        self._unfinished = "block_stop", block

    def _end_unfinished(self) -> None:
        if self._unfinished is not None:
            event, metadata = self._unfinished
            self._unfinished = None
            self._log.end(event, metadata=metadata)

    def _epochs(self, step: int) -> float:
        return round(step / self._steps_in_epoch, 2)
