"""Builds the compiled Keras model of a run from its config: network, optimizer, loss and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import ml_collections

from tfbigbatch import optimizers
from tfbigbatch.errors import InputError
from tfbigbatch.models import own_model
from tfbigbatch.optimizers import keras3
from tfbigbatch.schedules.classes import in_phases
from tfbigbatch.tasks.base import Task
from tfbigbatch.training.instruments import optimizer_fields
from tfbigbatch.training.phases import Phase


def compiled_network(config: ml_collections.ConfigDict, phases: Sequence[Phase]) -> keras.Model:
    """The compiled network of the first phase's task, with its optimizer built.

    Call it inside the strategy's scope.

    Args:
      config: of the experiment.
      phases: of the run.

    Raises:
      ValueError: a field of the optimizer cannot be used.
    """
    first = phases[0]
    learning_rate = in_phases(
        [phase.learning_rate for phase in phases], [phase.total_steps for phase in phases], keras="keras3"
    )
    fields = {**optimizer_fields(config), **first.scaled.optimizer}
    return compiled(first.task, lambda: _optimizer(fields, learning_rate))


def compiled(task: Task, make_optimizer: Any = None) -> keras.Model:
    """The network of a task with its loss and metrics, and an optimizer that is built; call it in the strategy's scope.

    Args:
      task: of an experiment.
      make_optimizer: function without arguments, called after the network is built; None for no optimizer.
    """
    own_model.fresh_names()
    network = task.network()
    optimizer = make_optimizer() if make_optimizer else None
    # Not the method of a subclass, as KerasHub's, which may have arguments of its own.
    keras.Model.compile(
        network,
        optimizer=_scaled(optimizer),
        loss=task.loss(),
        loss_weights=task.loss_weights(),
        weighted_metrics=task.metrics(),
        jit_compile=False,
        auto_scale_loss=False,
    )
    if optimizer is not None:
        # A variable that is created in the first step would cause a second trace.
        network.optimizer.build(network.trainable_variables)
    return network


def _scaled(optimizer: Any) -> Any:
    """The optimizer, with loss scaling where layers compute in float16."""
    if optimizer is None or keras.config.dtype_policy().compute_dtype != "float16":
        return optimizer
    is_ours = hasattr(optimizer, "_gradients_are_reduced")
    return (keras3 if is_ours else keras.optimizers).LossScaleOptimizer(optimizer)


def _optimizer(fields: dict[str, Any], learning_rate: Any) -> keras.optimizers.Optimizer:
    name = fields.pop("name", None)
    # Keras would make any object of a description by its own `serialize`.
    if not isinstance(name, str):
        raise InputError(f"optimizer.name={name!r:.80}: expected the name of an optimizer.")
    if fields.get("learning_rate"):
        raise InputError(
            "optimizer.learning_rate cannot be set here: the learning rate comes from the fields of schedule. "
            "Remove it."
        )
    return optimizers.get(name, keras="keras3", learning_rate=learning_rate, **fields)
