"""The batch arithmetic of a run: steps, intervals and recipe."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import ml_collections

from tfbigbatch.config.fields import interval
from tfbigbatch.config.recipe import scaled_recipe, tuned_recipe
from tfbigbatch.errors import InputError
from tfbigbatch.scaling.batch_ramp import BatchRamp, Stage
from tfbigbatch.scaling.recipe import Recipe
from tfbigbatch.schedules import to_steps
from tfbigbatch.schedules.durations import parsed


@dataclasses.dataclass(frozen=True)
class BatchArithmetic:
    """global batch = per-replica batch x accumulation x replicas.

    Attributes:
      batch_size: examples in one step (the global batch).
      accumulation_steps: micro-batches of a replica in one step.
      replicas: in sync, over all workers.
      dataset_size: training examples in one epoch.
    """

    batch_size: int
    accumulation_steps: int
    replicas: int
    dataset_size: int

    def __post_init__(self) -> None:
        if self.batch_size < 1 or self.accumulation_steps < 1:
            raise InputError(
                f"batch_size={self.batch_size}, accumulation_steps={self.accumulation_steps}: both are at least 1."
            )
        parts = self.accumulation_steps * self.replicas
        if self.batch_size % parts:
            nearest = max(1, round(self.batch_size / parts)) * parts
            raise InputError(
                f"batch_size={self.batch_size} does not divide by {self.accumulation_steps} accumulation steps x "
                f"{self.replicas} replicas = {parts}. The nearest that does: {nearest}."
            )
        if self.batch_size > self.dataset_size:
            raise InputError(
                f"batch_size={self.batch_size} is larger than the training set of {self.dataset_size} examples. "
                "Use a batch_size of at most that."
            )

    @property
    def micro_batch_size(self) -> int:
        """Examples in one forward and backward pass of a replica."""
        return self.batch_size // (self.accumulation_steps * self.replicas)

    def lines(self, total_steps: int) -> list[str]:
        """The arithmetic in words, for the banner."""
        epochs = total_steps * self.batch_size / self.dataset_size
        return [
            f"batch      {self.batch_size:,} global = {self.micro_batch_size:,} per replica x "
            f"{self.accumulation_steps} accumulation x {self.replicas} replica{'s' if self.replicas > 1 else ''}",
            f"length     {total_steps:,} steps = {epochs:.4g} epochs of {self.dataset_size:,} examples "
            f"({self.dataset_size / self.batch_size:.4g} steps each); {total_steps * self.batch_size:,} examples seen",
        ]


@dataclasses.dataclass(frozen=True)
class Plan:
    """The durations in steps, recipe and schedule of a config, for a dataset's size and a number of replicas.

    Attributes:
      total_steps, evaluate_every, checkpoint_every, log_every: the config's; whole numbers but for the intervals in a
        stage of a batch ramp.
      evaluation_batch_size: the config's, rounded up to whole replicas; a mask excludes the padding.
      tuned, scaled: the recipe at its own batch size, and scaled to the run's; with the arguments of the optimizer that
        the config scales.
      learning_rate: the schedule of `scaled`, of Keras 3.
      lines: the arithmetic, for the run's banner.
    """

    total_steps: int
    evaluate_every: float
    checkpoint_every: float
    log_every: float
    evaluation_batch_size: int
    tuned: Recipe
    scaled: Recipe
    learning_rate: Callable
    lines: Sequence[str]


def plan_of(config: ml_collections.ConfigDict, dataset_size: int, replicas: int) -> Plan:
    """The plan of a run.

    Args:
      config: of the experiment.
      dataset_size: examples in an epoch.
      replicas: over all workers.

    Raises:
      ValueError: a duration or the recipe cannot be used, or the batch does not divide over the replicas.
    """
    arithmetic = BatchArithmetic(config.batch_size, config.accumulation_steps, replicas, dataset_size)
    total_steps, evaluate_every, checkpoint_every, log_every = (
        to_steps(interval(config, name), name=name, batch_size=config.batch_size, dataset_size=dataset_size)
        for name in ("duration", "evaluate_every", "checkpoint_every", "log_every")
    )
    tuned = tuned_recipe(config, dataset_size)
    scaled = scaled_recipe(config, tuned)
    of_schedule, *of_optimizer = tuned.changes(scaled)
    return Plan(
        total_steps=total_steps,
        evaluate_every=evaluate_every,
        checkpoint_every=checkpoint_every,
        log_every=log_every,
        evaluation_batch_size=-(-config.evaluation_batch_size // replicas) * replicas,
        tuned=tuned,
        scaled=scaled,
        learning_rate=scaled.schedule(dataset_size, keras="keras3"),
        lines=(
            *arithmetic.lines(total_steps),
            f"schedule   {config.schedule.rule}, {of_schedule}, then {config.schedule.decay}",
            *([f"scaled     {', '.join(of_optimizer)}"] if of_optimizer else []),
        ),
    )


def stage_plan(
    plan: Plan,
    ramp: BatchRamp,
    stage: Stage,
    config: ml_collections.ConfigDict,
    dataset_size: int,
    replicas: int,
) -> Plan:
    """The plan of a stage of a batch ramp.

    Args:
      plan: of the whole run at its first batch.
      ramp: the ramp.
      stage: of `ramp`.
      config: of the stage, with its batch and its accumulation.
      dataset_size: examples in an epoch, at the stage's batch.
      replicas: over all workers.

    Raises:
      ValueError: the batch does not divide over the replicas.
    """
    arithmetic = BatchArithmetic(config.batch_size, config.accumulation_steps, replicas, dataset_size)
    # Not rounded to steps of this stage, so that each interval ends after as many examples in all stages.
    evaluate_every, checkpoint_every, log_every = (
        to_steps(every, name=name, batch_size=1, dataset_size=dataset_size) / config.batch_size
        if parsed(every, name=name)[1] != "step"
        else parsed(every, name=name)[0]
        for name in ("evaluate_every", "checkpoint_every", "log_every")
        for every in [interval(config, name)]
    )
    batch, _ = arithmetic.lines(stage.steps)
    first = plan.lines if stage.first_step == 0 else ()
    return dataclasses.replace(
        plan,
        total_steps=stage.steps,
        evaluate_every=evaluate_every,
        checkpoint_every=checkpoint_every,
        log_every=log_every,
        learning_rate=ramp.schedule_of(stage, plan.learning_rate, keras="keras3"),
        lines=(
            *(line for line in first if line.startswith("schedule")),
            f"{batch}, from step {stage.first_step:,} (epoch {stage.first_example / dataset_size:.4g}): "
            f"{stage.steps:,} steps, learning rate x{stage.factor:.4g}",
        ),
    )
