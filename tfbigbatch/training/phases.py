"""The phases of a run: each with its own data, batch, schedule and intervals; one network and optimizer for all."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import ml_collections
import tensorflow as tf

from tfbigbatch import experiment, schedules
from tfbigbatch.data.dataset import Dataset
from tfbigbatch.errors import InputError
from tfbigbatch.runs.extension import Extension
from tfbigbatch.tasks.base import Task
from tfbigbatch.training import input_pipelines
from tfbigbatch.training.plan import Plan, plan_of


@dataclasses.dataclass(frozen=True)
class Phase:
    """One phase of a run; a run without phases has one.

    Attributes:
      config: the run's config, with the phase's own fields.
      task: the task on the phase's data.
      plan: its arithmetic.
      first_step: step of the run at which it begins.
      skipped: batches left out before this point of the run; see `rollbacks`.
    """

    config: ml_collections.ConfigDict
    task: Task
    plan: Plan
    first_step: int
    skipped: int = 0

    @property
    def last_step(self) -> int:
        """Step of the run before which it ends."""
        return self.first_step + self.plan.total_steps

    @property
    def examples_in_epoch(self) -> int:
        """Training examples in one epoch of its data."""
        return self.task.train.examples_in_epoch(self.config.batch_size)

    @property
    def held_out(self) -> Dataset:
        """The split that it is evaluated on."""
        return self.task.held_out(self.config.evaluate_on)

    @property
    def evaluation_steps(self) -> int:
        """Batches that hold every held-out example once."""
        return self.held_out.evaluation_steps(self.plan.evaluation_batch_size)

    def evaluation_set(self, strategy: tf.distribute.Strategy) -> tf.distribute.DistributedDataset:
        """The distributed dataset of the held-out examples."""
        return input_pipelines.distribute(
            strategy,
            lambda context: self.held_out.evaluation_batches(context, batch_size=self.plan.evaluation_batch_size),
        )

    def training_set(
        self, strategy: tf.distribute.Strategy, first_step: int, last_step: int
    ) -> tf.distribute.DistributedDataset:
        """The distributed dataset of the steps [first_step, last_step) of the run."""
        return input_pipelines.distribute(
            strategy,
            lambda context: self.task.train.training_batches(
                context,
                batch_size=self.config.batch_size,
                seed=self.config.seed,
                first_step=first_step - self.first_step + self.skipped,
                last_step=last_step - self.first_step + self.skipped,
            ),
        )


def phases_of(
    config: ml_collections.ConfigDict,
    make_task: Callable[[ml_collections.ConfigDict], Task],
    replicas: int,
    skipped: int = 0,
) -> list[Phase]:
    """The phases of a run, in order.

    Args:
      config: of the experiment.
      make_task: returns the task of a phase's config.
      replicas: over all workers.
      skipped: batches left out.

    Raises:
      ValueError: a phase cannot be planned, or the task or DATE does not support phases.
    """
    found: list[Phase] = []
    first_step = 0
    for fields in experiment.phases(config):
        task = make_task(fields)
        if found and task.data_signature != found[0].task.data_signature:
            raise InputError(
                f"phases, phase {len(found) + 1}: its data is of {task.data_signature}, that of the first phase of "
                f"{found[0].task.data_signature}. One network is trained: prepare both with the same options."
            )
        plan = plan_of(fields, task.train.examples_in_epoch(fields.batch_size), replicas)
        found.append(Phase(fields, task, plan, first_step, skipped))
        first_step = found[-1].last_step
    if len(found) > 1 and (config.date.enabled or found[0].task.carries_state):
        why = (
            "date.enabled" if config.date.enabled else f"task {config.task}, which carries its state from step to step"
        )
        raise InputError(f"phases: {len(found)} of them, with {why}; expected none. Train each in a run of its own.")
    return found


def at_step(phases: Sequence[Phase], step: int) -> Phase:
    """The phase of a step; the last phase for a step past its end."""
    return next((phase for phase in phases if step < phase.last_step), phases[-1])


def learning_rate(phases: Sequence[Phase]) -> Any:
    """The learning-rate schedule of the whole run, of tf_keras."""
    return schedules.in_phases(
        [phase.plan.learning_rate for phase in phases],
        [phase.plan.total_steps for phase in phases],
        keras="tf_keras",
    )


def lines(phases: Sequence[Phase]) -> list[str]:
    """The arithmetic of all phases, for the run's banner."""
    if len(phases) == 1:
        return list(phases[0].plan.lines)
    return [
        line
        for number, phase in enumerate(phases, 1)
        for line in (
            f"phase {number}    of {len(phases)}, from step {phase.first_step:,}: {phase.task.train.source}",
            *phase.plan.lines,
        )
    ]


def extension_lines(phase: Phase, extension: Extension, replicas: int) -> list[str]:
    """What changes where a finished run is trained for longer, above all its learning rate; for the run's banner.

    Args:
      phase: the run's only one.
      extension: of the run.
      replicas: over all workers.

    Raises:
      ValueError: the new duration is no longer than the one before.
    """
    config = phase.config
    if phase.plan.total_steps <= extension.total_steps:
        raise InputError(
            f"--extend: duration={config.duration!r} is {phase.plan.total_steps:,} steps, and the run was of "
            f"{extension.total_steps:,} ({extension.duration}). Give a longer --config.duration."
        )
    before = copy.deepcopy(config)
    before.duration = extension.duration
    ended = plan_of(before, phase.examples_in_epoch, replicas).learning_rate(extension.step - 1)
    begins = phase.plan.learning_rate(extension.step)
    return [
        f"extend     at step {extension.step:,}, from {extension.duration} to {config.duration}",
        f"           learning rate {float(ended):.4g} in step {extension.step:,} by the schedule that ended there, "
        f"{float(begins):.4g} in step {extension.step + 1:,}: the decay ({config.schedule.decay}) is computed for the "
        "new duration",
    ]
