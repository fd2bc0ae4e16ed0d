"""What MLPerf Training's rules ask of a run, and want to know of it: ResNet with LARS, BERT with LAMB, GNMT with Adam.

ResNet's are those of 4.0.0, BERT's of 5.0.0 and GNMT's of 0.7.0, the last rules that have them.
"""

from tfbigbatch.errors import InputError
from tfbigbatch.schedules import decays


def check(config):
    """Raises where a run cannot be logged by the rules.

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


def unit(task):
    """The value of the task's metric that the rules count as 1: they know BLEU as a share, and the task in percent."""
    return _BENCHMARKS[task].unit


def settings(config, recipe, task, held_out, replicas):
    """What the rules want to know of a run: dictionary from the log's keys to values.

    Args:
      config: the run's, that `check` accepts.
      recipe: `scaling.Recipe` at the run's own batch.
      task, held_out: the task, and the set that it is evaluated on.
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
        **_BENCHMARKS[config.task].of_the_recipe(config, recipe, task, replicas),
    }


class _ResNet:
    name = "resnet"
    unit = 1.0
    _EXAMPLE = "experiments/imagenet/resnet50_lars.py:4k"
    wanted = (
        ("model.name", "resnet", _EXAMPLE),
        ("optimizer.name", "lars", _EXAMPLE),
        ("schedule.decay", "mlperf_lars", _EXAMPLE),
    )

    @staticmethod
    def of_the_recipe(config, recipe, task, replicas):
        examples = task.train.examples_in_epoch(config.batch_size)
        optimizer = config.optimizer
        span = config.batch_size // config.accumulation_steps
        return {
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


class _Bert:
    name = "bert"
    unit = 1.0
    _EXAMPLE = "experiments/bert/mlperf.py:4k"
    wanted = (
        ("model.name", "bert", _EXAMPLE),
        ("optimizer.name", "lamb", _EXAMPLE),
        ("schedule.decay", "linear", _EXAMPLE),
    )

    @staticmethod
    def of_the_recipe(config, recipe, task, replicas):
        del replicas
        examples = task.train.examples_in_epoch(config.batch_size)
        optimizer = config.optimizer
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


class _Gnmt:
    name = "gnmt"
    unit = 100.0
    _EXAMPLE = "experiments/wmt/gnmt_mlperf.py:1k"
    wanted = (
        ("optimizer.name", "adam", _EXAMPLE),
        ("schedule.decay", "mlperf_gnmt", _EXAMPLE),
        ("schedule.rise", "exponential", _EXAMPLE),
        ("data.tokenize", "intl", _EXAMPLE),
    )

    @staticmethod
    def of_the_recipe(config, recipe, task, replicas):
        del replicas
        examples = task.train.examples_in_epoch(config.batch_size)
        schedule = config.schedule
        halvings = decays.gnmt_halvings(
            recipe.total_steps(examples), remain=schedule.remain, interval=schedule.interval
        )
        return {
            "opt_name": "adam",
            "opt_base_learning_rate": recipe.learning_rate,
            # The alternatives to tensorflow/nmt's own schedule: an exponential rise, and halvings.
            "opt_learning_rate_alt_warmup_func": True,
            "opt_learning_rate_alt_decay_func": True,
            "opt_learning_rate_warmup_steps": recipe.warmup_steps(examples),
            "opt_learning_rate_remain_steps": halvings[0],
            "opt_learning_rate_decay_interval": halvings[1] - halvings[0],
            "opt_learning_rate_decay_steps": len(halvings),
            "opt_learning_rate_decay_factor": 0.5,
            # The rules count a sentence's begin and end; a shape has one of them.
            "max_sequence_length": max(task.train.shapes[-1]) + 1,
        }


def _check_gnmt(config):
    """What the rules of gnmt ask for beside names."""
    for field, given, fine, expected in (
        ("optimizer.weight_decay", config.optimizer.get("weight_decay"), 0.0, "0.0: Adam, and not AdamW"),
        ("data.lowercase", config.data.lowercase, True, "True: BLEU in lower case"),
        ("evaluate_on", config.evaluate_on, "test", "'test', of newstest2014"),
    ):
        if given != fine:
            raise InputError(f"--mlperf_log: {field}={given!r}; the rules of gnmt ask for {expected}.")


_BENCHMARKS = {"image_classification": _ResNet, "bert_pretraining": _Bert, "gnmt": _Gnmt}
