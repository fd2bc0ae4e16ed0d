"""The phases of a run: each with its own data, batch, schedule and intervals; one network and optimizer for all."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ml_collections
import tensorflow as tf

from tfbigbatch import tasks
from tfbigbatch.config import recipe
from tfbigbatch.config.fields import interval
from tfbigbatch.data.dataset import Dataset
from tfbigbatch.errors import InputError
from tfbigbatch.scaling.recipe import Recipe
from tfbigbatch.schedules import to_steps
from tfbigbatch.schedules.durations import parsed
from tfbigbatch.tasks.base import Task
from tfbigbatch.training import input_pipelines
from tfbigbatch.training import strategy as strategies
from tfbigbatch.utils import arguments

EVENTS = {"log": "log_every", "evaluate": "evaluate_every", "save": "checkpoint_every"}
"""What may be due after a step: a row of the training, an evaluation, a checkpoint; and its field of the config."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase:
    """One phase of a run, and its batch arithmetic; a run without phases has one, a batch ramp one for each batch.

    Attributes:
      config: the run's config, with the phase's own fields.
      task: the task on the phase's data.
      first_step: step of the run at which it begins.
      total_steps: its own.
      every: examples between two of each of EVENTS, 0 for none; whole steps but for the stages of a batch ramp.
      evaluation_batch_size: the config's, rounded up to whole replicas; a mask excludes the padding.
      tuned, scaled: the recipe at its own batch size, and scaled to the run's; with the arguments of the optimizer that
        the config scales.
      learning_rate: the schedule of `scaled`, of Keras 3.
      lines: the arithmetic, for the run's banner.
      skipped: batches left out before this point of the run; see `rollbacks`.
      first_example: of a batch ramp, examples of the run before it; else 0.
      merged: of a batch ramp, batches of the first size in one of its own; the data are read in the first, so that
        their order is that of a run without a ramp.
      is_last: whether the run ends with it; the stages of a ramp are evaluated at their intervals alone.
    """

    config: ml_collections.ConfigDict
    task: Task
    first_step: int
    total_steps: int
    every: Mapping[str, int]
    evaluation_batch_size: int
    tuned: Recipe
    scaled: Recipe
    learning_rate: Callable
    lines: Sequence[str]
    skipped: int = 0
    first_example: int = 0
    merged: int = 1
    is_last: bool = True

    @property
    def last_step(self) -> int:
        """Step of the run before which it ends."""
        return self.first_step + self.total_steps

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
        return self.held_out.evaluation_steps(self.evaluation_batch_size)

    def seen(self, step: int) -> int:
        """Examples of the run before `step`, those of another batch than this one as if they were of this one.

        In a batch ramp they are counted as they are: an interval ends after as many in all stages.
        """
        if self.first_example:
            return self.first_example + (step - self.first_step) * self.config.batch_size
        return step * self.config.batch_size

    def is_due(self, event: str, step: int) -> bool:
        """True if an event comes after `step`.

        Args:
          event: 'log', a row of the training; 'evaluate'; or 'save', a checkpoint.
          step: steps done.
        """
        if step == self.last_step and (event == "save" or event == "evaluate" and self.is_last):
            return True
        every, seen = self.every[event], self._counted(event, step)
        return every > 0 and seen // every > (seen - self.config.batch_size) // every

    def steps_to_next_event(self, step: int) -> int:
        """Steps from `step` to the next row, evaluation or checkpoint, or to the phase's end."""
        left = {event: every - self._counted(event, step) % every for event, every in self.every.items() if every}
        return min([self.last_step - step, *(-(-examples // self.config.batch_size) for examples in left.values())])

    def _counted(self, event: str, step: int) -> int:
        """Examples that the interval of an event divides: before `step`, for rows as if all were of this batch."""
        return step * self.config.batch_size if event == "log" else self.seen(step)

    def evaluation_set(self, strategy: tf.distribute.Strategy) -> Iterator[Any]:
        """The batches of the held-out examples, again and again."""
        return input_pipelines.rounds(
            strategy,
            lambda context: self.held_out.evaluation_batches(context, batch_size=self.evaluation_batch_size),
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
      ValueError: a duration or the recipe cannot be used, the batch does not divide over the replicas, or the task does
        not support phases.
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
        found.append(_phase(fields, task, first_step, replicas, skipped))
        first_step = found[-1].last_step
    if len(found) > 1 and found[0].task.carries_state:
        raise InputError(
            f"phases: {len(found)} of them, with task {config.task}, which carries its state from step to step; "
            "expected none. Train each in a run of its own."
        )
    return _stages(found[0], replicas) if config.ramp.name != "none" else found


def batch_line(batch_size: int, accumulation_steps: int, replicas: int, dataset_size: int) -> str:
    """global batch = per-replica batch x accumulation x replicas, in words for the banner.

    Args:
      batch_size: examples in one step (the global batch).
      accumulation_steps: micro-batches of a replica in one step.
      replicas: in sync, over all workers.
      dataset_size: training examples in one epoch.

    Raises:
      ValueError: the batch does not divide, or is larger than the data.
    """
    parts = accumulation_steps * replicas
    if batch_size % parts:
        nearest = max(1, round(batch_size / parts)) * parts
        raise InputError(
            f"batch_size={batch_size} does not divide by {accumulation_steps} accumulation steps x {replicas} "
            f"replicas = {parts}. The nearest that does: {nearest}."
        )
    if batch_size > dataset_size:
        raise InputError(
            f"batch_size={batch_size} is larger than the training set of {dataset_size} examples. Use a batch_size of "
            "at most that."
        )
    return (
        f"batch      {batch_size:,} global = {batch_size // parts:,} per replica x {accumulation_steps} accumulation x "
        f"{replicas} replica{'s' if replicas > 1 else ''}"
    )


def _phase(config: ml_collections.ConfigDict, task: Task, first_step: int, replicas: int, skipped: int) -> Phase:
    """The phase of a config, which begins at a step of the run."""
    size, batch_size = task.train.examples_in_epoch(config.batch_size), config.batch_size
    batch = batch_line(batch_size, config.accumulation_steps, replicas, size)
    total_steps, *every = (
        to_steps(interval(config, name), name=name, batch_size=batch_size, dataset_size=size)
        for name in ("duration", *EVENTS.values())
    )
    tuned = recipe.tuned_recipe(config, size)
    scaled = recipe.scaled_recipe(config, tuned)
    of_schedule, *of_optimizer = tuned.changes(scaled)
    return Phase(
        config=config,
        task=task,
        first_step=first_step,
        total_steps=total_steps,
        every={event: steps * batch_size for event, steps in zip(EVENTS, every)},
        evaluation_batch_size=-(-config.evaluation_batch_size // replicas) * replicas,
        tuned=tuned,
        scaled=scaled,
        learning_rate=scaled.schedule(size, keras="keras3"),
        lines=(
            batch,
            f"length     {total_steps:,} steps = {total_steps * batch_size / size:.4g} epochs of {size:,} examples "
            f"({size / batch_size:.4g} steps each); {total_steps * batch_size:,} examples seen",
            f"schedule   {config.schedule.rule}, {of_schedule}, then {config.schedule.decay}",
            *([f"scaled     {', '.join(of_optimizer)}"] if of_optimizer else []),
        ),
        skipped=skipped,
    )


def _stages(phase: Phase, replicas: int) -> list[Phase]:
    """The stages of a batch ramp as phases.

    Args:
      phase: the whole run at its first batch.
      replicas: over all workers.

    Raises:
      ValueError: the ramp cannot be used in this run, or a batch does not divide over the replicas.
    """
    config, task = phase.config, phase.task
    ramp = recipe.batch_ramp(config, phase.scaled, phase.examples_in_epoch)
    assert ramp is not None
    # Streams that carry state begin with an epoch only: there each of them begins at its first window.
    examples_in_epoch = task.train.examples_in_epoch
    stages = ramp.stages_of_epochs(examples_in_epoch) if task.carries_state else ramp.stages(phase.examples_in_epoch)
    found = []
    for stage in stages:
        fields = copy.deepcopy(config)
        fields.batch_size = stage.batch_size
        fields.accumulation_steps = _passes(config, stage.batch_size, replicas, bool(task.batch_slices))
        size, every = examples_in_epoch(stage.batch_size), {}
        for event, name in EVENTS.items():
            text = interval(fields, name)
            # Examples are not rounded to steps of this stage, so that each interval has as many in all stages.
            unit = stage.batch_size if parsed(text, name=name)[1] == "step" else 1
            every[event] = unit * to_steps(text, name=name, batch_size=unit, dataset_size=size)
        batch = batch_line(stage.batch_size, fields.accumulation_steps, replicas, size)
        _, _, *schedule = phase.lines
        line = (
            f"{batch}, from step {stage.first_step:,} (epoch {stage.first_example / size:.4g}): {stage.steps:,} steps, "
            f"learning rate x{stage.factor:.4g}"
        )
        found.append(
            dataclasses.replace(
                phase,
                config=fields,
                first_step=stage.first_step,
                total_steps=stage.steps,
                every=every,
                learning_rate=ramp.schedule_of(stage, phase.learning_rate, keras="keras3"),
                lines=(*(schedule if stage is stages[0] else ()), line),
                first_example=stage.first_example,
                merged=1 if task.carries_state else stage.batch_size // config.batch_size,
                is_last=stage is stages[-1],
            )
        )
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


def lines(phases: Sequence[Phase]) -> list[str]:
    """The arithmetic of all phases, for the run's banner."""
    found: list[str] = []
    for number, phase in enumerate(phases, 1):
        if len(phases) > 1 and phase.config.ramp.name == "none":
            source = phase.task.train.source
            found.append(f"phase {number}    of {len(phases)}, from step {phase.first_step:,}: {source}")
        found += phase.lines
    return found


def extension_lines(phase: Phase, extension: Mapping[str, Any]) -> list[str]:
    """The changes of a finished run that is trained for longer, above all its learning rate; for the run's banner.

    Args:
      phase: the run's only one.
      extension: of `stored_run.requested_extension`.

    Raises:
      ValueError: the new duration is no longer than the one before.
    """
    config, step = phase.config, extension["step"]
    if phase.total_steps <= extension["total_steps"]:
        raise InputError(
            f"--extend: duration={config.duration!r} is {phase.total_steps:,} steps, and the run was of "
            f"{extension['total_steps']:,} ({extension['duration']}). Give a longer --config.duration."
        )
    before = copy.deepcopy(config)
    before.duration = extension["duration"]
    ended_by = recipe.scaled_recipe(before, recipe.tuned_recipe(before, phase.examples_in_epoch))
    ended = ended_by.schedule(phase.examples_in_epoch, keras="keras3")(step - 1)
    begins = phase.learning_rate(step)
    return [
        f"extend     at step {step:,}, from {extension['duration']} to {config.duration}",
        f"           learning rate {float(ended):.4g} in step {step:,} by the schedule that ended there, "
        f"{float(begins):.4g} in step {step + 1:,}: the decay ({config.schedule.decay}) is computed for the "
        "new duration",
    ]
