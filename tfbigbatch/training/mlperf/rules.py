"""MLPerf Training's rules: which runs they allow, and the settings that a log reports.

ResNet with LARS by the rules of 4.0.0, BERT with LAMB by 5.0.0, GNMT with Adam by 0.7.0: the last that have them.
"""

from __future__ import annotations

from typing import Any, ClassVar

import ml_collections

from tfbigbatch.errors import InputError
from tfbigbatch.scaling import Recipe
from tfbigbatch.schedules import decays


def check(config: ml_collections.ConfigDict) -> None:
    """Checks that a run can be logged by the rules.

    Raises:
      ValueError: it is neither ResNet with LARS and MLPerf's decay, nor BERT with LAMB and a linear decay, nor GNMT
        with Adam and MLPerf's schedule.
    """
    if config.task not in _BENCHMARKS:
        raise InputError(
            f"--mlperf_log: task {config.task} has no rules here; expected one of {', '.join(sorted(_BENCHMARKS))}."
        )
    benchmark, wanted = _BENCHMARKS[config.task].name, _BENCHMARKS[config.task].wanted
    for field, expected, example in wanted:
        section, _, name = field.partition(".")
        value = config[section].get(name, "")
        if not value.startswith(expected):
            raise InputError(
                f"--mlperf_log: {field}={value!r}; the rules that it follows are those of {benchmark}, which ask for "
                f"{expected!r}. Take an experiment such as {example}."
            )
    if benchmark == _Gnmt.name:
        _check_gnmt(config)


def unit(task: str) -> float:
    """The value of a task's metric that the rules count as 1: they have BLEU as a fraction, the task in percent."""
    return _BENCHMARKS[task].unit


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
    return {
        "submission_benchmark": _BENCHMARKS[config.task].name,
        **{f"submission_{name}": value for name, value in config.mlperf.items()},
        "seed": config.seed,
        "global_batch_size": config.batch_size,
        "gradient_accumulation_steps": config.accumulation_steps,
        "train_samples": len(task.train),
        "eval_samples": len(held_out),
        **_BENCHMARKS[config.task].settings(config, recipe, task, replicas),
    }


class _Benchmark:
    """A benchmark's rules.

    Attributes:
      name: of the benchmark, in a log.
      unit: the value of the task's metric that the rules count as 1.
      wanted: (dotted field, what its value starts with, an experiment that has it).
    """

    name: ClassVar[str]
    unit: ClassVar[float] = 1.0
    wanted: ClassVar[tuple[tuple[str, str, str], ...]]

    @staticmethod
    def settings(config: ml_collections.ConfigDict, recipe: Recipe, task: Any, replicas: int) -> dict[str, Any]:
        """The benchmark's own settings in a log."""
        raise NotImplementedError


class _ResNet(_Benchmark):
    name = "resnet"
    _EXAMPLE = "experiments/imagenet/resnet50_lars.py:4k"
    wanted = (
        ("model.name", "resnet", _EXAMPLE),
        ("optimizer.name", "lars", _EXAMPLE),
        ("schedule.decay", "mlperf_lars", _EXAMPLE),
    )

    @staticmethod
    def settings(config: ml_collections.ConfigDict, recipe: Recipe, task: Any, replicas: int) -> dict[str, Any]:
        examples = task.train.examples_in_epoch(config.batch_size)
        optimizer = {**config.optimizer, **recipe.optimizer}
        span = config.batch_size // config.accumulation_steps
        return {
            "model_bn_span": span if config.model.cross_replica_norm else span // replicas,
            "opt_name": "lars",
            "lars_opt_base_learning_rate": recipe.learning_rate,
            "lars_opt_end_learning_rate": 1e-4,
            "lars_opt_learning_rate_decay_poly_power": 2,
            # By the rules' count, one more than the steps after the warm-up.
            "lars_opt_learning_rate_decay_steps": recipe.total_steps(examples) - recipe.warmup_steps(examples) + 1,
            "lars_opt_learning_rate_warmup_epochs": recipe.warmup_epochs,
            "lars_opt_momentum": optimizer.get("momentum", 0.9),
            "lars_opt_weight_decay": optimizer.get("weight_decay", 0.0),
            "lars_epsilon": optimizer.get("epsilon", 0.0),
        }


class _Bert(_Benchmark):
    name = "bert"
    _EXAMPLE = "experiments/bert/mlperf.py:4k"
    wanted = (
        ("model.name", "bert", _EXAMPLE),
        ("optimizer.name", "lamb", _EXAMPLE),
        ("schedule.decay", "linear", _EXAMPLE),
    )

    @staticmethod
    def settings(config: ml_collections.ConfigDict, recipe: Recipe, task: Any, replicas: int) -> dict[str, Any]:
        del replicas
        examples = task.train.examples_in_epoch(config.batch_size)
        optimizer = {**config.optimizer, **recipe.optimizer}
        warmup_steps = recipe.warmup_steps(examples)
        return {
            "opt_name": "lamb",
            "opt_base_learning_rate": recipe.learning_rate,
            "opt_learning_rate_training_steps": recipe.total_steps(examples),
            "opt_learning_rate_warmup_steps": warmup_steps,
            "num_warmup_steps": warmup_steps,
            "start_warmup_step": 0,
            "opt_lamb_epsilon": optimizer.get("epsilon", 1e-6),
            "opt_lamb_beta_1": optimizer.get("beta_1", 0.9),
            "opt_lamb_beta_2": optimizer.get("beta_2", 0.999),
            "opt_lamb_weight_decay_rate": optimizer.get("weight_decay", 0.0),
        }


class _Gnmt(_Benchmark):
    name = "gnmt"
    unit = 100.0
    _EXAMPLE = "experiments/wmt/gnmt_mlperf.py:1k"
    wanted = (
        ("optimizer.name", "adam", _EXAMPLE),
        ("schedule.decay", "mlperf_gnmt", _EXAMPLE),
        ("schedule.warmup_shape", "exponential", _EXAMPLE),
        ("data.tokenize", "intl", _EXAMPLE),
    )

    @staticmethod
    def settings(config: ml_collections.ConfigDict, recipe: Recipe, task: Any, replicas: int) -> dict[str, Any]:
        del replicas
        examples = task.train.examples_in_epoch(config.batch_size)
        schedule = config.schedule
        halvings = decays.gnmt_halvings(
            recipe.total_steps(examples), remain=schedule.remain, interval=schedule.interval
        )
        return {
            "opt_name": "adam",
            "opt_base_learning_rate": recipe.learning_rate,
            # The alternatives to tensorflow/nmt's schedule: an exponential warm-up, and halvings.
            "opt_learning_rate_alt_warmup_func": True,
            "opt_learning_rate_alt_decay_func": True,
            "opt_learning_rate_warmup_steps": recipe.warmup_steps(examples),
            "opt_learning_rate_remain_steps": halvings[0],
            "opt_learning_rate_decay_interval": halvings[1] - halvings[0],
            "opt_learning_rate_decay_steps": len(halvings),
            "opt_learning_rate_decay_factor": 0.5,
            # The rules count a sentence's start and end tokens; a shape has one of them.
            "max_sequence_length": max(task.train.shapes[-1]) + 1,
        }


def _check_gnmt(config: ml_collections.ConfigDict) -> None:
    """What the rules of GNMT require besides names."""
    for field, given, fine, expected in (
        ("optimizer.weight_decay", config.optimizer.get("weight_decay"), 0.0, "0.0: Adam, and not AdamW"),
        ("data.lowercase", config.data.lowercase, True, "True: BLEU in lower case"),
        ("evaluate_on", config.evaluate_on, "test", "'test', of newstest2014"),
    ):
        if given != fine:
            raise InputError(f"--mlperf_log: {field}={given!r}; the rules of gnmt ask for {expected}.")


_BENCHMARKS: dict[str, type[_Benchmark]] = {"image_classification": _ResNet, "bert_pretraining": _Bert, "gnmt": _Gnmt}
