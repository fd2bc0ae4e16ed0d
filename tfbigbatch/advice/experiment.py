"""Advice for an experiment: its own network, data, training step and tuned recipe, for a few hundred steps."""

from __future__ import annotations

import copy
import time
from typing import Any

import ml_collections
import tensorflow as tf
import tf_keras

from tfbigbatch import experiment, instruments, tasks
from tfbigbatch.advice import measuring
from tfbigbatch.advice.advice import Advice
from tfbigbatch.advice.measuring import Say, Step, Training
from tfbigbatch.errors import InputError
from tfbigbatch.experiment.checks import check_fields
from tfbigbatch.optimizers import registry
from tfbigbatch.runs import initial_weights, stored_run
from tfbigbatch.training import phases as run_phases
from tfbigbatch.training.build import compiled_model
from tfbigbatch.training.phases import Phase
from tfbigbatch.training.precision import run_precision
from tfbigbatch.training.train_step import TrainingModel
from tfbigbatch.utils.home import expanded

# Batches that the steps of one size are timed on: those of a text differ in length.
_BATCHES = 4


def advise_experiment(
    config: ml_collections.ConfigDict,
    *,
    data_dir: str | None = None,
    seconds: float = 120.0,
    init_from: str | None = None,
    name: str | None = None,
    flags: str | None = None,
    say: Say = print,
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
      init_from: None, or the run or checkpoint that gives the first weights.
      name: of the experiment, for the text.
      flags: that name it on the command line, '--config=digits/lstm_small_batch'; None for no command in the advice.
      say: called with lines of progress.

    Raises:
      ValueError: a field cannot be used, the dataset is too small, or nothing can be measured.
    """
    started = time.perf_counter()
    data_dir, init_from = expanded(data_dir), expanded(init_from)
    config = copy.deepcopy(config)
    schedule = config.schedule
    scales = any(name != "none" for name in (schedule.rule, schedule.moments, schedule.weight_decay))
    if not scales and schedule.batch_size != config.batch_size:
        say(f"recipe     schedule.rule is none: taken as tuned at batch_size={config.batch_size}")
        schedule.batch_size = config.batch_size
        flags = flags and f"{flags} --config.schedule.batch_size={config.batch_size}"
    strategy = tf.distribute.OneDeviceStrategy((tf.config.list_logical_devices("GPU") or ["CPU:0"])[0])
    config, tuned, phase = _at_the_tuned_batch(config, strategy, data_dir)
    say(f"task       {config.task}: {phase.task.train.source}, {phase.task.train.contents}")
    with strategy.scope():
        model = compiled_model(config, [phase], jit_compile=config.jit_compile)
        if init_from:
            for line in initial_weights.load_into(model.network, stored_run.checkpoint_at(init_from)).lines():
                say(line)
    training = _training(config, phase, model, strategy)
    points, times = measuring.measure(training, seconds=seconds, began=started, say=say)
    return Advice(
        title=name or config.task,
        tuned=tuned,
        optimizer=measuring.optimizer_of(model),
        dataset_size=phase.examples_in_epoch,
        points=points,
        times=times,
        seconds=time.perf_counter() - started,
        experiment=flags,
    )


def _at_the_tuned_batch(
    config: ml_collections.ConfigDict, strategy: tf.distribute.Strategy, data_dir: str | None
) -> tuple[ml_collections.ConfigDict, Any, Phase]:
    """(the config at the batch size that its recipe was tuned at, the recipe, its first phase); sets Keras up."""
    check_fields(config)
    optimizer = config.optimizer.to_dict()
    for wrapper in registry.WRAPPERS:
        if optimizer.get(wrapper):
            raise InputError(
                f"optimizer.{wrapper}={optimizer[wrapper]}: not measurable: the noise scale is that of averaged "
                "gradients, and the replicas combine something else. Set it to None."
            )
    precision = run_precision(config.mixed_precision, strategy, None).name
    config = copy.deepcopy(experiment.phases(config)[0])
    tf_keras.backend.clear_session()
    tf_keras.backend.experimental.enable_tf_random_generator()
    tf_keras.utils.set_random_seed(config.seed)
    tf_keras.mixed_precision.set_global_policy(experiment.keras_policy(precision))
    model, data = config.model.to_dict(), config.data.to_dict()
    task = tasks.get(config.task)(model=model, data=data, data_dir=data_dir, use_fake_data=False)
    tuned = experiment.tuned_recipe(config, task.train.examples_in_epoch(config.batch_size))
    config.batch_size = config.schedule.batch_size
    config.duration = f"{tuned.epochs} epochs"
    config.schedule.rule = "none"
    config.steps_per_execution = 1
    config.simulated_replicas = 0
    config.date.enabled = False
    for instrument in ("noise_scale", "sharpness", "layers"):
        config.instruments[instrument].enabled = False
    examples = task.train.examples_in_epoch(config.batch_size)
    if examples < 4 * config.batch_size:
        raise InputError(
            f"not measurable: {task.train.source} has {examples:,} examples, too few for a tuned batch of "
            f"{config.batch_size:,} and larger ones; expected four batches or more."
        )
    # The noise is measured between the micro-batches: the experiment's, or as few as there can be.
    size, own = config.batch_size, config.accumulation_steps
    config.accumulation_steps = next((n for n in (own, *range(2, size + 1)) if n > 1 and size % n == 0), 1)
    if config.accumulation_steps == 1:
        raise InputError(
            f"not measurable: schedule.batch_size={size}: the noise is measured between the parts of a batch. Expected "
            "a tuned batch of 2 examples or more."
        )
    return config, tuned, run_phases.phases_of(config, lambda fields: task, 1)[0]


def _training(
    config: ml_collections.ConfigDict, phase: Phase, model: TrainingModel, strategy: tf.distribute.Strategy
) -> Training:
    with strategy.scope():
        source = instruments.StepGradients(len(model.network.trainable_variables))

    def fit(steps: int, callbacks: list[Any]) -> None:
        model.step_gradients = source
        batches = phase.training_set(strategy, 0, steps)
        model.fit(batches, epochs=1, steps_per_epoch=steps, callbacks=callbacks, verbose=0)
        model.step_gradients = None

    def step_at(size: int) -> Step:
        """The training step at a batch size, without accumulation."""
        fields = copy.deepcopy(config)
        fields.batch_size, fields.accumulation_steps = size, 1
        used = model
        if phase.task.carries_state:
            # The states have a row for each example of a batch.
            with strategy.scope():
                own = run_phases.phases_of(fields, lambda _: phase.task, 1)
                used = compiled_model(fields, own, jit_compile=config.jit_compile)
        used.accumulate(1)
        count = min(_BATCHES, max(1, phase.task.train.examples_in_epoch(size) // size))
        batches = phase.task.train.training_batches(
            tf.distribute.InputContext(), batch_size=size, seed=config.seed, first_step=0, last_step=count
        )
        # Read once, so that the input is not timed.
        iterator = iter(batches.cache().repeat())
        for _ in range(count):
            next(iterator)
        return measuring.traced_step(used, iterator)

    return Training(
        model=model,
        keras=tf_keras,
        noise=instruments.keras2.GradientNoiseScale(step_gradients=source, when=measuring.EVERY, smoothing=0.0),
        fit=fit,
        step_at=step_at,
        batch_size=config.batch_size,
        largest=phase.examples_in_epoch,
        total_steps=phase.plan.total_steps,
    )
