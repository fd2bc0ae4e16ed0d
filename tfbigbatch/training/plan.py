"""What follows from a config, a data set and a number of replicas: the run's arithmetic."""

import dataclasses
from collections.abc import Callable

from tfbigbatch import experiment
from tfbigbatch.scaling import Recipe
from tfbigbatch.schedules import to_steps
from tfbigbatch.training.batches import BatchArithmetic


@dataclasses.dataclass(frozen=True)
class Plan:
    """Durations in updates.

    Attributes:
      total_steps, evaluate_every, checkpoint_every, log_every: the config's.
      evaluation_batch_size: the config's, up to whole replicas; a mask leaves the padding out.
      tuned, scaled: the recipe at its own batch size, and carried to the run's.
      learning_rate: the schedule of `scaled`, of tf_keras.
      lines: the arithmetic, for the run's banner.
    """

    total_steps: int
    evaluate_every: int
    checkpoint_every: int
    log_every: int
    evaluation_batch_size: int
    tuned: Recipe
    scaled: Recipe
    learning_rate: Callable
    lines: tuple


def plan_of(config, dataset_size, replicas):
    """The `Plan` of a run.

    Args:
      config: of the experiment.
      dataset_size: examples in an epoch.
      replicas: over all workers.

    Raises:
      ValueError: a duration or the recipe cannot be used, or the batch does not divide over the replicas.
    """
    arithmetic = BatchArithmetic(config.batch_size, config.accumulation_steps, replicas, dataset_size)

    def steps(name):
        return to_steps(config[name], name=name, batch_size=config.batch_size, dataset_size=dataset_size)

    total_steps = steps("duration")
    tuned = experiment.tuned_recipe(config, dataset_size)
    scaled = tuned.at(config.batch_size, config.schedule.rule)
    return Plan(
        total_steps=total_steps,
        evaluate_every=steps("evaluate_every"),
        checkpoint_every=steps("checkpoint_every"),
        log_every=steps("log_every"),
        evaluation_batch_size=-(-config.evaluation_batch_size // replicas) * replicas,
        tuned=tuned,
        scaled=scaled,
        learning_rate=scaled.schedule(dataset_size, keras="tf_keras"),
        lines=(
            *arithmetic.lines(total_steps),
            f"schedule   {config.schedule.rule}, {tuned.arithmetic(scaled)}, then {config.schedule.decay}",
        ),
    )
