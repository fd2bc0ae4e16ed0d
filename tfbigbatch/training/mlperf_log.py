"""The log of a run in MLPerf's format, as the rules of MLPerf Training 4.0 ask for ResNet with LARS.

mlperf-logging writes it, and its compliance checker accepts it:

    python -m mlperf_logging.compliance_checker --ruleset 4.0.0 FILE
"""

import logging
import os

from tfbigbatch.errors import InputError


def check(config):
    """Raises where a run cannot be logged by these rules.

    Raises:
      ValueError: it is no ResNet with LARS and MLPerf's decay.
    """
    name = config.model.get("name", "")
    for field, value, expected, fits in (
        ("model.name", name, "a ResNet", name.startswith("resnet")),
        ("optimizer.name", config.optimizer.get("name"), "'lars'", config.optimizer.get("name") == "lars"),
        ("schedule.decay", config.schedule.decay, "'mlperf_lars'", config.schedule.decay == "mlperf_lars"),
    ):
        if not fits:
            raise InputError(
                f"--mlperf_log: {field}={value!r}; the rules that it follows are those of ResNet with LARS, which ask "
                f"for {expected}. Take an experiment such as experiments/imagenet/resnet50_lars_4k.py."
            )


def settings(config, recipe, task, held_out, replicas):
    """What the rules want to know of a run: dictionary from the log's keys to values.

    Args:
      config: the run's, that `check` accepts.
      recipe: `scaling.Recipe` at the run's own batch.
      task, held_out: the task, and the set that it is evaluated on.
      replicas: in sync.
    """
    optimizer = config.optimizer
    span = config.batch_size // config.accumulation_steps
    examples = task.train.examples_in_epoch(config.batch_size)
    return {
        "submission_benchmark": "resnet",
        **{f"submission_{name}": value for name, value in config.mlperf.items()},
        "seed": config.seed,
        "global_batch_size": config.batch_size,
        "gradient_accumulation_steps": config.accumulation_steps,
        "train_samples": len(task.train),
        "eval_samples": len(held_out),
        "model_bn_span": span if config.model.cross_replica_norm else span // replicas,
        "opt_name": "lars",
        "lars_opt_base_learning_rate": recipe.learning_rate,
        "lars_opt_end_learning_rate": 1e-4,
        "lars_opt_learning_rate_decay_poly_power": 2,
        # By the rules' own count, one more than there are after the warm-up.
        "lars_opt_learning_rate_decay_steps": recipe.total_steps(examples) - recipe.warmup_steps(examples) + 1,
        "lars_opt_learning_rate_warmup_epochs": recipe.warmup_epochs,
        "lars_opt_momentum": optimizer.get("momentum", 0.9),
        "lars_opt_weight_decay": optimizer.get("weight_decay", 0.0),
        "lars_epsilon": optimizer.get("epsilon", 0.0),
    }


class MLPerfLog:
    """Writes the events of a run.

    A resumed run goes on with the file that it finds: the rules know no resume, so such a log is no submission.

    Args:
      path: the file.
      metric: the evaluated metric that is MLPerf's accuracy.

    Raises:
      ValueError: mlperf-logging is not installed, or the file cannot be written.
    """

    def __init__(self, path, metric):
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
        self._log = MLLogger(logger, root_dir=os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
        self._metric = metric
        # Known once the run begins.
        self._steps_in_epoch = self._evaluate_every = self._block = None

    def init(self):
        """The preparations of the run begin."""
        self._log.event("cache_clear", True)
        self._log.start("init_start")

    def start(self, values, *, step, steps_in_epoch, evaluate_every):
        """The run begins.

        Args:
          values: `settings`.
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
        self._log.event("eval_accuracy", metrics[self._metric], metadata=at)
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
