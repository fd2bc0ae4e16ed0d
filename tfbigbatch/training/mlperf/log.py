"""The log of a run in MLPerf's format; what its rules want to know of a run is in mlperf_rules.py.

mlperf-logging writes it, and its compliance checker accepts it:

    python -m mlperf_logging.compliance_checker --ruleset 4.0.0 FILE        5.0.0 for BERT, 0.7.0 for GNMT
"""

import logging
import os

from tfbigbatch.errors import InputError


class MLPerfLog:
    """Writes the events of a run.

    A resumed run goes on with the file that it finds: the rules know no resume, so such a log is no submission.

    Args:
      path: the file.
      metric: the evaluated metric that is MLPerf's accuracy.
      unit: its value that the rules count as 1.

    Raises:
      ValueError: mlperf-logging is not installed, or the file cannot be written.
    """

    def __init__(self, path, metric, unit=1.0):
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
        # Known once the run begins.
        self._steps_in_epoch = self._evaluate_every = self._block = None

    def init(self):
        """The preparations of the run begin."""
        self._log.event("cache_clear", True)
        self._log.start("init_start")

    def start(self, values, *, step, steps_in_epoch, evaluate_every):
        """The run begins.

        Args:
          values: `mlperf_rules.settings`.
          step: updates that were done before.
          steps_in_epoch: updates in an epoch, a float.
          evaluate_every: updates from one evaluation to the next.
        """
        for key, value in values.items():
            self._log.event(key, value)
        self._log.end("init_stop")
        self._log.start("run_start")
        self._steps_in_epoch, self._evaluate_every = steps_in_epoch, evaluate_every
        self._begin_block(step)

    def evaluation_begins(self, step):
        """After update `step`."""
        self._log.end("block_stop", metadata=self._block)
        self._log.start("eval_start", metadata={"epoch_num": self._epochs(step)})

    def evaluation_ends(self, step, metrics, goes_on):
        """With `metrics`; `goes_on` tells whether the run does."""
        at = {"epoch_num": self._epochs(step)}
        self._log.event("eval_accuracy", metrics[self._metric] / self._unit, metadata=at)
        self._log.end("eval_stop", metadata=at)
        if goes_on:
            self._begin_block(step)

    def stop(self, reached):
        """The run ends, and the file is closed; `reached` tells whether the target was."""
        self._log.end("run_stop", metadata={"status": "success" if reached else "aborted"})
        self._file.close()

    def _begin_block(self, step):
        # The rules count epochs from 1.
        self._block = {
            "first_epoch_num": self._epochs(step) + 1,
            "epoch_count": self._epochs(self._evaluate_every),
        }
        self._log.start("block_start", metadata=self._block)

    def _epochs(self, step):
        return round(step / self._steps_in_epoch, 2)
