"""Advice for an experiment: its own network, data, training step and tuned recipe, for a few hundred steps."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from typing import Any

import keras
import ml_collections
import tensorflow as tf

from tfbigbatch import instruments
from tfbigbatch.config.recipe import check_fields, phases, tuned_recipe
from tfbigbatch.errors import InputError
from tfbigbatch.optimizers import registry
from tfbigbatch.scaling.recipe import Recipe
from tfbigbatch.tasks.base import Task
from tfbigbatch.training import phases as run_phases
from tfbigbatch.training.build import compiled_network
from tfbigbatch.training.precision import run_precision, set_up_keras
from tfbigbatch.training.step import TrainingSteps
from tfbigbatch.training.streams import StreamStates
from tfbigbatch.tuning import measuring
from tfbigbatch.tuning.advice import Advice
from tfbigbatch.utils.home import expanded


def advise_experiment(
    config: ml_collections.ConfigDict,
    *,
    data_dir: str | None = None,
    seconds: float = 120.0,
    name: str | None = None,
    flags: str | None = None,
    say: measuring.Say = print,
) -> Advice:
    """Measures an experiment on one device and advises a batch size for it.

    Trains the recipe at the batch size that it was tuned at, from its first step and in its own schedule, and measures
    the gradient noise scale between the micro-batches of each step. Then times the training step at powers of two of
    that batch. Nothing is written, and nothing is kept of the training. The tuned batch is `schedule.batch_size`; with
    the rule 'none', which leaves the recipe as it is at any batch, it is `batch_size`.

    Args:
      config: of the experiment; of several phases the first is measured.
      data_dir: folder of the task's data.
      seconds: about how long the measurements may take, tracing included; 10 or more are useful.
      name: of the experiment, for the text.
      flags: that name it on the command line, '--config=digits/lstm_small_batch'; None for no command in the advice.
      say: called with lines of progress.

    Raises:
      ValueError: a field cannot be used, the dataset is too small, or nothing can be measured.
    """
    began = time.perf_counter()
    data_dir = expanded(data_dir)
    config = copy.deepcopy(config)
    schedule = config.schedule
    scales = any(each != "none" for each in (schedule.rule, schedule.moments, schedule.weight_decay))
    if not scales and schedule.batch_size != config.batch_size:
        say(f"recipe     schedule.rule is none: taken as tuned at batch_size={config.batch_size}")
        schedule.batch_size = config.batch_size
        flags = flags and f"{flags} --config.schedule.batch_size={config.batch_size}"
    strategy = tf.distribute.OneDeviceStrategy((tf.config.list_logical_devices("GPU") or ["CPU:0"])[0])
    config, tuned, task = _at_the_tuned_batch(config, strategy, data_dir)
    say(f"task       {config.task}: {task.train.source}, {task.train.contents}")

    def compiled(fields: ml_collections.ConfigDict) -> keras.Model:
        return compiled_network(fields, run_phases.phases_of(fields, lambda _: task, 1))

    def iterator(size: int, count: int, repeats: bool = False) -> Iterator[Any]:
        context = tf.distribute.InputContext()
        data = task.train.training_batches(context, batch_size=size, seed=config.seed, first_step=0, last_step=count)
        return iter(data.cache().repeat() if repeats else data)

    def steps_of(network: keras.Model, size: int, **fields: Any) -> TrainingSteps:
        """The steps at a batch size; recurrent states have a row for each example of a batch."""
        return TrainingSteps(
            network,
            strategy=strategy,
            seed=config.seed,
            jit_compile=config.jit_compile,
            metrics_in_training=task.metrics_in_training,
            batch_slices=task.batch_slices,
            streams=StreamStates(network, size) if task.carries_state else None,
            **fields,
        )

    def train(count: int, scale: instruments.GradientNoiseScale, is_over: Callable[[float], bool]) -> None:
        accumulated = {"accumulation_steps": config.accumulation_steps, "step_gradients": gradients}
        steps, batches = steps_of(network, config.batch_size, **accumulated), iterator(config.batch_size, count)
        scale.begin(network)
        for number in range(count):
            steps.begin_window()
            steps(batches, number, 1)
            scale.after_steps(1)
            if is_over(steps.means()["loss"]):
                break

    def step_at(size: int, count: int) -> measuring.Step:
        steps, batches = steps_of(network, size), iterator(size, count, repeats=True)
        # Read once, so that the input is not timed.
        for _ in range(count):
            next(batches)

        def step() -> None:
            steps.begin_window()
            steps(batches, 0, 1)
            steps.wait()

        return step

    with strategy.scope():
        network = compiled(config)
        gradients = instruments.StepGradients(len(network.trainable_variables))
    examples = task.train.examples_in_epoch(config.batch_size)
    return measuring.measured(
        name or config.task,
        network,
        tuned,
        examples,
        gradients={"step_gradients": gradients},
        train=train,
        step_at=step_at,
        largest=examples,
        seconds=seconds,
        began=began,
        say=say,
        experiment=flags,
    )


def _at_the_tuned_batch(
    config: ml_collections.ConfigDict, strategy: tf.distribute.Strategy, data_dir: str | None
) -> tuple[ml_collections.ConfigDict, Recipe, Task]:
    """(the config at the batch size that its recipe was tuned at, the recipe, its first task); sets Keras up."""
    check_fields(config)
    optimizer = config.optimizer.to_dict()
    for wrapper in registry.WRAPPERS:
        if optimizer.get(wrapper):
            raise InputError(
                f"optimizer.{wrapper}={optimizer[wrapper]}: not measurable: the noise scale is that of averaged "
                "gradients, and the replicas combine something else. Set it to None."
            )
    precision = run_precision(config.mixed_precision, strategy, None).name
    config = copy.deepcopy(phases(config)[0])
    set_up_keras(config.seed, precision)
    task = run_phases.task_of(config, data_dir)
    tuned = tuned_recipe(config, task.train.examples_in_epoch(config.batch_size))
    size = config.batch_size = config.schedule.batch_size
    config.duration, config.schedule.rule = f"{tuned.epochs} epochs", "none"
    config.simulated_replicas = 0
    for instrument in ("noise_scale", "sharpness", "layers"):
        config.instruments[instrument].enabled = False
    # The noise is measured between the micro-batches: the experiment's, or as few as there can be.
    counts = (config.accumulation_steps, *range(2, size + 1))
    config.accumulation_steps = next((count for count in counts if count > 1 and size % count == 0), 1)
    examples = task.train.examples_in_epoch(size)
    if examples < 4 * size or config.accumulation_steps == 1:
        raise InputError(
            f"not measurable: schedule.batch_size={size} with the {examples:,} examples of {task.train.source}: the "
            "noise is measured between the parts of a batch, and larger ones are timed. Expected a tuned batch of 2 "
            "examples or more, and four of them in the dataset."
        )
    return config, tuned, task
