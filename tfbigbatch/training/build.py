"""Builds the compiled Keras model of a run from its config: network, training step, optimizer, loss and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_collections
import tensorflow as tf
import tf_keras

from tfbigbatch import optimizers, scaling
from tfbigbatch.errors import InputError
from tfbigbatch.tasks.base import Task
from tfbigbatch.training import phases as run_phases
from tfbigbatch.training import strategy as strategies
from tfbigbatch.training.carried_state import StatefulTrainingModel
from tfbigbatch.training.checkpoint_parts import weight_averages
from tfbigbatch.training.instruments import optimizer_fields
from tfbigbatch.training.phases import Phase
from tfbigbatch.training.train_step import TrainingModel


def compiled_model(
    config: ml_collections.ConfigDict, phases: Sequence[Phase], *, jit_compile: bool = False
) -> TrainingModel:
    """The compiled model of the first phase's task, with its optimizer built.

    Call it inside the strategy's scope.

    Args:
      config: of the experiment.
      phases: of the run.
      jit_compile: whether Keras compiles the steps.

    Raises:
      ValueError: a field of the optimizer cannot be used.
    """
    task, plan = phases[0].task, phases[0].plan
    model = training_model(
        task,
        config.accumulation_steps,
        # Of a batch ramp the last: the streams of a smaller batch are the first ones of each replica.
        batch_size=max(phase.config.batch_size for phase in phases),
        evaluation_batch_size=plan.evaluation_batch_size,
        is_static=jit_compile or strategies.is_tpu(tf.distribute.get_strategy()),
    )
    network = model.network
    learning_rate = (
        scaling.make_adjustable(plan.learning_rate) if config.date.enabled else run_phases.learning_rate(phases)
    )
    model.compile(
        optimizer=_optimizer({**optimizer_fields(config), **plan.scaled.optimizer}, learning_rate),
        loss=task.loss(),
        weighted_metrics=task.metrics(),
        jit_compile=jit_compile,
    )
    # A variable that is created in the first step would cause a second trace.
    model.optimizer.build(network.trainable_variables)
    model.averages = weight_averages(model.optimizer, network.trainable_variables)
    # Keras has a mean of the loss for each output. Of a subclassed network, `output` raises AttributeError.
    outputs = getattr(network, "output", None)
    if isinstance(outputs, dict):
        model.compiled_loss.build(outputs)
    return model


def training_model(
    task: Task, accumulation_steps: int, *, batch_size: int, evaluation_batch_size: int, is_static: bool = False
) -> TrainingModel:
    """The model of a task with its network, not compiled; `is_static` where its shapes must be static."""
    network = task.network()
    if task.carries_state:
        sizes = {"batch_size": batch_size, "evaluation_batch_size": evaluation_batch_size}
        return StatefulTrainingModel(network, accumulation_steps, task.metrics_in_training, **sizes)
    return TrainingModel(
        network,
        accumulation_steps,
        task.metrics_in_training,
        batch_slices=task.batch_slices,
        predictions=task.predictions,
        real_examples=None if is_static else task.real_examples,
    )


def _optimizer(fields: dict[str, Any], learning_rate: Any) -> tf_keras.optimizers.Optimizer:
    name = fields.pop("name", None)
    # Keras would make any object of a description by its own `serialize`.
    if not isinstance(name, str):
        raise InputError(f"optimizer.name={name!r:.80}: expected the name of an optimizer.")
    if fields.get("learning_rate"):
        raise InputError(
            "optimizer.learning_rate cannot be set here: the learning rate comes from the fields of schedule. "
            "Remove it."
        )
    return optimizers.get(name, keras="tf_keras", learning_rate=learning_rate, **fields)
