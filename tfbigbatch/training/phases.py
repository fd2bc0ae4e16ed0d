"""The phases of a run: each with its own data, batch, schedule and intervals; one network and optimizer for all."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_collections
import tensorflow as tf

from tfbigbatch import tasks
from tfbigbatch.config import recipe
from tfbigbatch.data.dataset import Dataset
from tfbigbatch.errors import InputError
from tfbigbatch.run_directory.stored_run import Extension
from tfbigbatch.schedules.classes import in_phases
from tfbigbatch.tasks.base import Task
from tfbigbatch.training import input_pipelines
from tfbigbatch.training import strategy as strategies
from tfbigbatch.training.plan import Plan, plan_of, stage_plan
from tfbigbatch.utils import arguments

# Of an interval in steps: those of a batch ramp are fractions, whose multiples must not be missed by rounding.
ROUNDING = 1e-9


EVENTS = ("log", "evaluate", "save")
"""What may be due after a step: a row of the training, an evaluation, a checkpoint."""


def crosses(before: int, step: int, every: float, offset: float = 0) -> bool:
    """True if a multiple of `every` lies in (before + offset, step + offset]; False where `every` is 0."""
    if every <= 0:
        return False
    return math.floor((step + offset) / every + ROUNDING) > math.floor((before + offset) / every + ROUNDING)


@dataclasses.dataclass(frozen=True)
class Phase:
    """One phase of a run; a run without phases has one.

    Attributes:
      config: the run's config, with the phase's own fields.
      task: the task on the phase's data.
      plan: its arithmetic.
      first_step: step of the run at which it begins.
      skipped: batches left out before this point of the run; see `rollbacks`.
      first_example: of a batch ramp, examples of the run before it; else 0.
      merged: of a batch ramp, batches of the first size in one of its own; the data are read in the first, so that
        their order is that of a run without a ramp.
      is_last: whether the run ends with it; the stages of a ramp are evaluated at their intervals alone.
    """

    config: ml_collections.ConfigDict
    task: Task
    plan: Plan
    first_step: int
    skipped: int = 0
    first_example: int = 0
    merged: int = 1
    is_last: bool = True

    @property
    def offset(self) -> float:
        """Steps to add to one for the examples before it in steps of this batch; 0 without a batch ramp."""
        return self.first_example / self.config.batch_size - self.first_step if self.first_example else 0

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

    def is_due(self, event: str, step: int) -> bool:
        """True if an event comes after `step`.

        Args:
          event: 'log', a row of the training; 'evaluate'; or 'save', a checkpoint.
          step: steps done.
        """
        if step == self.last_step and (event == "save" or event == "evaluate" and self.is_last):
            return True
        every, offset = self._interval(event)
        return crosses(step - 1, step, every, offset)

    def steps_to_next_event(self, step: int) -> int:
        """Steps from `step` to the next row, evaluation or checkpoint, or to the phase's end."""
        ends = [self.last_step]
        for event in ("log", "evaluate", "save"):
            every, offset = self._interval(event)
            if every > 0:
                end = max(step + 1, math.floor((math.floor((step + offset) / every + ROUNDING) + 1) * every - offset))
                while not crosses(step, end, every, offset):
                    end += 1
                ends.append(end)
        return min(ends) - step

    def _interval(self, event: str) -> tuple[float, float]:
        """(steps between two events, steps to add to one before their multiples are counted)."""
        plan = self.plan
        of_event = {
            "log": (plan.log_every, 0.0),
            "evaluate": (plan.evaluate_every, self.offset),
            "save": (plan.checkpoint_every, self.offset),
        }
        return of_event[event]

    def evaluation_set(
        self, strategy: tf.distribute.Strategy
    ) -> tf.distribute.DistributedDataset | input_pipelines.KeptBatches:
        """The batches of the held-out examples; kept in memory where they are small."""
        return input_pipelines.held_out(
            strategy,
            lambda context: self.held_out.evaluation_batches(context, batch_size=self.plan.evaluation_batch_size),
            self.evaluation_steps,
        )

    def training_set(
        self, strategy: tf.distribute.Strategy, first_step: int, last_step: int
    ) -> tf.distribute.DistributedDataset:
        """The distributed dataset of the steps [first_step, last_step) of the run."""
        size = self.config.batch_size // self.merged
        first, last = (
            self.first_example // size + self.merged * (step - self.first_step + self.skipped)
            for step in (first_step, last_step)
        )

        def batches_of(context: tf.distribute.InputContext) -> tf.data.Dataset:
            batches = self.task.train.training_batches(
                context,
                batch_size=size,
                seed=self.config.seed,
                first_step=first,
                last_step=last,
            )
            replicas = context.num_replicas_in_sync // context.num_input_pipelines
            batches = input_pipelines.merged(batches, self.merged, replicas)
            return input_pipelines.of_same_length(batches) if strategies.is_multi_worker(strategy) else batches

        return input_pipelines.distribute(strategy, batches_of)


def task_of(phase: ml_collections.ConfigDict, data_dir: str | None, use_fake_data: bool = False) -> Task:
    """The task of a phase's config, on the data of a folder or on made-up ones."""
    model, data = phase.model.to_dict(), phase.data.to_dict()
    return tasks.get(phase.task)(model=model, data=data, data_dir=data_dir, use_fake_data=use_fake_data)


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
    for fields in recipe.phases(config):
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
    return _stages(found[0], replicas) if config.ramp.name != "none" else found


def _stages(phase: Phase, replicas: int) -> list[Phase]:
    """The stages of a batch ramp as phases.

    Args:
      phase: the whole run at its first batch.
      replicas: over all workers.

    Raises:
      ValueError: the ramp cannot be used in this run.
    """
    config, task = phase.config, phase.task
    if config.date.enabled:
        raise InputError(f"ramp.name={config.ramp.name!r} with date.enabled: DATE adjusts the schedule of one batch.")
    ramp = recipe.batch_ramp(config, phase.plan.scaled, phase.examples_in_epoch)
    assert ramp is not None
    # Streams that carry state begin with an epoch only: there each of them begins at its first window.
    examples_in_epoch = task.train.examples_in_epoch
    stages = ramp.stages_of_epochs(examples_in_epoch) if task.carries_state else ramp.stages(phase.examples_in_epoch)
    found = []
    for stage in stages:
        fields = copy.deepcopy(config)
        fields.batch_size = stage.batch_size
        fields.accumulation_steps = _passes(config, stage.batch_size, replicas, bool(task.batch_slices))
        plan = stage_plan(phase.plan, ramp, stage, fields, examples_in_epoch(stage.batch_size), replicas)
        merged = 1 if task.carries_state else stage.batch_size // config.batch_size
        is_last = stage is stages[-1]
        found.append(Phase(fields, task, plan, stage.first_step, phase.skipped, stage.first_example, merged, is_last))
    return found


def _passes(config: ml_collections.ConfigDict, batch_size: int, replicas: int, in_buckets: bool) -> int:
    """The accumulation steps of a ramp's stage."""
    first = config.batch_size // (config.accumulation_steps * replicas)
    most = arguments.integer("ramp.micro_batch_size", config.ramp.micro_batch_size, least=0) or first
    if most < first:
        raise InputError(
            f"ramp.micro_batch_size={most}: the first batch has passes of {first} examples on each replica. Expected "
            "that or more, or more accumulation_steps."
        )
    if in_buckets and most != first:
        raise InputError(
            f"ramp.micro_batch_size={most}: the passes of task {config.task} are of one bucket each, and those of a "
            "larger size would hold several. Leave it 0: larger batches accumulate passes."
        )
    of_replica = batch_size // replicas
    return next(passes for passes in range(-(-of_replica // most), of_replica + 1) if of_replica % passes == 0)


def at_step(phases: Sequence[Phase], step: int) -> Phase:
    """The phase of a step; the last phase for a step past its end."""
    return next((phase for phase in phases if step < phase.last_step), phases[-1])


def learning_rate(phases: Sequence[Phase]) -> Any:
    """The learning-rate schedule of the whole run, of Keras 3."""
    return in_phases(
        [phase.plan.learning_rate for phase in phases],
        [phase.plan.total_steps for phase in phases],
        keras="keras3",
    )


def lines(phases: Sequence[Phase]) -> list[str]:
    """The arithmetic of all phases, for the run's banner."""
    if len(phases) == 1:
        return list(phases[0].plan.lines)
    if phases[0].config.ramp.name != "none":
        return [line for phase in phases for line in phase.plan.lines]
    return [
        line
        for number, phase in enumerate(phases, 1)
        for line in (
            f"phase {number}    of {len(phases)}, from step {phase.first_step:,}: {phase.task.train.source}",
            *phase.plan.lines,
        )
    ]


def extension_lines(phase: Phase, extension: Extension, replicas: int) -> list[str]:
    """The changes of a finished run that is trained for longer, above all its learning rate; for the run's banner.

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
