"""What MLPerf Training's rules ask of a run, and want to know of it: ResNet with LARS, and BERT with LAMB.

ResNet's are those of 4.0.0 and BERT's of 5.0.0, the last rules that have them.
"""

from tfbigbatch.errors import InputError


def check(config):
    """Raises where a run cannot be logged by the rules.

    Raises:
      ValueError: it is neither ResNet with LARS and MLPerf's decay, nor BERT with LAMB and a linear decay.
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


def settings(config, recipe, task, held_out, replicas):
    """What the rules want to know of a run: dictionary from the log's keys to values.

    Args:
      config: the run's, that `check` accepts.
      recipe: `scaling.Recipe` at the run's own batch.
      task, held_out: the task, and the set that it is evaluated on.
      replicas: in sync.
    """
    examples = task.train.examples_in_epoch(config.batch_size)
    return {
        "submission_benchmark": _BENCHMARKS[config.task].name,
        **{f"submission_{name}": value for name, value in config.mlperf.items()},
        "seed": config.seed,
        "global_batch_size": config.batch_size,
        "gradient_accumulation_steps": config.accumulation_steps,
        "train_samples": len(task.train),
        "eval_samples": len(held_out),
        **_BENCHMARKS[config.task].of_the_recipe(config, recipe, examples, replicas),
    }


class _ResNet:
    name = "resnet"
    _EXAMPLE = "experiments/imagenet/resnet50_lars_4k.py"
    wanted = (
        ("model.name", "resnet", _EXAMPLE),
        ("optimizer.name", "lars", _EXAMPLE),
        ("schedule.decay", "mlperf_lars", _EXAMPLE),
    )

    @staticmethod
    def of_the_recipe(config, recipe, examples, replicas):
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
    _EXAMPLE = "experiments/bert/mlperf_4096.py"
    wanted = (
        ("model.name", "bert", _EXAMPLE),
        ("optimizer.name", "lamb", _EXAMPLE),
        ("schedule.decay", "linear", _EXAMPLE),
    )

    @staticmethod
    def of_the_recipe(config, recipe, examples, replicas):
        del replicas
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


_BENCHMARKS = {"image_classification": _ResNet, "bert_pretraining": _Bert}
