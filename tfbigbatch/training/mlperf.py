"""MLPerf Training: the log of a run in its format, which runs its rules allow, and the settings that a log reports.

ResNet with LARS by the rules of 4.0.0, BERT with LAMB by 5.0.0, GNMT with Adam by 0.7.0: the last that have them.
mlperf-logging writes the log, and its compliance checker accepts it:

    python -m mlperf_logging.compliance_checker --ruleset 4.0.0 FILE        5.0.0 for BERT, 0.7.0 for GNMT
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Mapping
from typing import Any

import ml_collections

from tfbigbatch.errors import InputError
from tfbigbatch.scaling.recipe import Recipe
from tfbigbatch.schedules import by_name


def check(config: ml_collections.ConfigDict) -> None:
    """Checks that a run can be logged by the rules.

    Raises:
      ValueError: it is neither ResNet with LARS and MLPerf's decay, nor BERT with LAMB and a linear decay, nor GNMT
        with Adam, MLPerf's schedule, and BLEU in lower case on newstest2014.
    """
    if config.task not in _BENCHMARKS:
        raise InputError(
            f"--mlperf_log: task {config.task} has no rules here; expected one of {', '.join(sorted(_BENCHMARKS))}."
        )
    benchmark = _BENCHMARKS[config.task]
    for field, expected in benchmark.wanted.items():
        section, _, name = field.rpartition(".")
        value = (config[section] if section else config).get(name, type(expected)())
        if not (value.startswith(expected) if isinstance(value, str) else value == expected):
            raise InputError(
                f"--mlperf_log: {field}={value!r}; the rules that it follows are those of {benchmark.name}, which ask "
                f"for {expected!r}. Take an experiment such as {benchmark.example}."
            )


def settings(
    config: ml_collections.ConfigDict, recipe: Recipe, task: Any, held_out: Any, replicas: int
) -> dict[str, Any]:
    """The settings that the rules ask for, by the log's keys.

    Args:
      config: the run's, accepted by `check`.
      recipe: at the run's own batch.
      task, held_out: the task, and the split that it is evaluated on.
      replicas: in sync.
    """
    benchmark, schedule = _BENCHMARKS[config.task], config.schedule
    examples = task.train.examples_in_epoch(config.batch_size)
    total_steps, warmup_steps = recipe.total_steps(examples), recipe.warmup_steps(examples)
    optimizer = {**config.optimizer, **recipe.optimizer}
    found = {
        "submission_benchmark": benchmark.name,
        **{f"submission_{field}": value for field, value in config.mlperf.items()},
        "seed": config.seed,
        "global_batch_size": config.batch_size,
        "gradient_accumulation_steps": config.accumulation_steps,
        "train_samples": len(task.train),
        "eval_samples": len(held_out),
        "opt_name": benchmark.wanted["optimizer.name"],
    }
    if benchmark.name == "resnet":
        span = config.batch_size // config.accumulation_steps
        return {
            **found,
            "model_bn_span": span if config.model.cross_replica_norm else span // replicas,
            "lars_opt_base_learning_rate": recipe.learning_rate,
            "lars_opt_end_learning_rate": 1e-4,
            "lars_opt_learning_rate_decay_poly_power": 2,
            # By the rules' count, one more than the steps after the warm-up.
            "lars_opt_learning_rate_decay_steps": total_steps - warmup_steps + 1,
            "lars_opt_learning_rate_warmup_epochs": recipe.warmup_epochs,
            "lars_opt_momentum": optimizer.get("momentum", 0.9),
            "lars_opt_weight_decay": optimizer.get("weight_decay", 0.0),
            "lars_epsilon": optimizer.get("epsilon", 0.0),
        }
    found |= {"opt_base_learning_rate": recipe.learning_rate, "opt_learning_rate_warmup_steps": warmup_steps}
    if benchmark.name == "bert":
        return {
            **found,
            "opt_learning_rate_training_steps": total_steps,
            "num_warmup_steps": warmup_steps,
            "start_warmup_step": 0,
            "opt_lamb_epsilon": optimizer.get("epsilon", 1e-6),
            "opt_lamb_beta_1": optimizer.get("beta_1", 0.9),
            "opt_lamb_beta_2": optimizer.get("beta_2", 0.999),
            "opt_lamb_weight_decay_rate": optimizer.get("weight_decay", 0.0),
        }
    halvings = by_name.gnmt_halvings(total_steps, remain=schedule.remain, interval=schedule.interval)
    return {
        **found,
        # The alternatives to tensorflow/nmt's schedule: an exponential warm-up, and halvings.
        "opt_learning_rate_alt_warmup_func": True,
        "opt_learning_rate_alt_decay_func": True,
        "opt_learning_rate_remain_steps": halvings[0],
        "opt_learning_rate_decay_interval": halvings[1] - halvings[0],
        "opt_learning_rate_decay_steps": len(halvings),
        "opt_learning_rate_decay_factor": 0.5,
        # The rules count a sentence's start and end tokens; a shape has one of them.
        "max_sequence_length": max(task.train.shapes[-1]) + 1,
    }


@dataclasses.dataclass(frozen=True)
class _Benchmark:
    """A benchmark's rules.

    Attributes:
      name: of the benchmark, in a log.
      example: an experiment that follows them.
      wanted: the value of a field, by its dotted name; of a text its beginning.
      unit: the value of the task's metric that the rules count as 1: they have BLEU as a fraction, the task in percent.
    """

    name: str
    example: str
    wanted: Mapping[str, Any]
    unit: float = 1.0


_BENCHMARKS = {
    "image_classification": _Benchmark(
        "resnet",
        "experiments/imagenet/resnet50_lars.py:4k",
        {"model.name": "resnet", "optimizer.name": "lars", "schedule.decay": "mlperf_lars"},
    ),
    "bert_pretraining": _Benchmark(
        "bert",
        "experiments/bert/mlperf.py:4k",
        {"model.name": "bert", "optimizer.name": "lamb", "schedule.decay": "linear"},
    ),
    "gnmt": _Benchmark(
        "gnmt",
        "experiments/wmt/gnmt_mlperf.py:1k",
        {
            "optimizer.name": "adam",
            "optimizer.weight_decay": 0.0,  # Adam, and not AdamW
            "schedule.decay": "mlperf_gnmt",
            "schedule.warmup_shape": "exponential",
            "data.tokenize": "intl",
            "data.lowercase": True,
            "evaluate_on": "test",  # newstest2014
        },
        unit=100.0,
    ),
}


class MLPerfLog:
    """Writes MLPerf's log of a run; to make the object logs the start of the preparation.

    A resumed run appends to the file: the rules have no resume, so such a log is not a submission.

    Args:
      path: the file.
      task: the run's, which `check` accepted.
      metric: the metric that is MLPerf's accuracy.

    Raises:
      ValueError: mlperf-logging is not installed, or the file cannot be written.
    """

    def __init__(self, path: str, task: str, metric: str) -> None:
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
        self._metric, self._unit = metric, _BENCHMARKS[task].unit
        # Set by `start`.
        self._steps_in_epoch, self._evaluate_every = 1.0, 0
        # What has begun and has not ended: its last event, with its metadata.
        self._unfinished: tuple[str, dict[str, float]] | None = None
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
          values: from `settings`.
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
