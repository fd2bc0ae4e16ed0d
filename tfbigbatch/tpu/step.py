"""Traces the training step of an experiment as one replica of a TPU slice runs it."""

from __future__ import annotations

import copy
import os
import tempfile
import typing
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfbigbatch import experiment, tasks
from tfbigbatch.errors import InputError
from tfbigbatch.tpu import stub_datasets
from tfbigbatch.tpu.strategy import AheadOfTimeStrategy
from tfbigbatch.training import phases as run_phases
from tfbigbatch.training.build import compiled_model


class TracedStep(typing.NamedTuple):
    """A training step of one phase.

    Attributes:
      function: tf.ConcreteFunction from a replica's batch, flat, to its metrics.
      inputs: nest of tf.TensorSpec of the replica's batch.
      batch_size: examples in a step over all replicas.
      accumulation_steps: micro-batches of a replica in a step.
      examples: training examples in an epoch.
      updates: optimizer steps of this phase.
      weights: number of trainable parameters.
      model: keeps the variables alive; the function has only their handles.
      stages: of the batch ramp; 1 without one.
    """

    function: Any
    inputs: Any
    batch_size: int
    accumulation_steps: int
    examples: int
    updates: int
    weights: int
    model: tf_keras.Model
    stages: int


def trace(config: Any, replicas: int, *, phase: int = 1, data_dir: str | None = None) -> TracedStep:
    """Builds an experiment's model and optimizer, and traces its training step for one of `replicas`.

    Args:
      config: ml_collections.ConfigDict of the experiment.
      replicas: in sync.
      phase, data_dir: see `check.CheckRequest`.

    Raises:
      ValueError: the batch does not divide over the replicas, there is no such phase, or the config is invalid.
    """
    precision = "bfloat16" if config.mixed_precision == experiment.AUTO else config.mixed_precision
    if precision == "float16":
        raise InputError(
            "mixed_precision=float16: a TPU computes in bfloat16; set mixed_precision to bfloat16 or float32."
        )
    tf_keras.backend.clear_session()
    tf_keras.backend.experimental.enable_tf_random_generator()
    tf_keras.mixed_precision.set_global_policy(experiment.keras_policy(precision))
    with tempfile.TemporaryDirectory() as folder:
        config = copy.deepcopy(config)
        # On a TPU, TPUStrategy loops over steps and compiles.
        config.steps_per_execution, config.jit_compile = 1, False
        if config.ramp.name == "none":
            # This phase alone: the batch of another may not divide over these replicas.
            config, phase = _numbered(experiment.phases(config), phase), 1
        # The stages of a batch ramp are phases too.
        phases = run_phases.phases_of(config, _task_maker(folder, data_dir), replicas)
        return _traced(_numbered(phases, phase), phases, replicas)


def _numbered(phases: Sequence[Any], phase: int) -> Any:
    if not 1 <= phase <= len(phases):
        raise InputError(f"--phase={phase}: the run has {len(phases)} phase(s), counted from 1.")
    return phases[phase - 1]


def _task_maker(folder: str, data_dir: str | None) -> Callable[[Any], Any]:
    def make(fields: Any) -> Any:
        if data_dir is not None:
            data: dict[str, Any] = {"data_dir": data_dir, "use_fake_data": False}
        else:
            data = stub_datasets.write(fields, os.path.join(folder, "data"))
        model = {**fields.model.to_dict()}
        # The values of a checkpoint do not change the step.
        model.update({"init_checkpoint": ""} if "init_checkpoint" in model else {})
        return tasks.get(fields.task)(model=model, data=fields.data.to_dict(), **data)

    return make


def _traced(phase: run_phases.Phase, phases: Sequence[run_phases.Phase], replicas: int) -> TracedStep:
    strategy = AheadOfTimeStrategy(replicas)
    context = tf.distribute.InputContext(1, 0, replicas)
    inputs = phase.task.train.training_batches(
        context, batch_size=phase.config.batch_size, seed=0, first_step=0, last_step=1
    ).element_spec
    with strategy.scope():
        model = compiled_model(phase.config, phases)
        # The loss' running mean is a variable: made here, and not inside the trace.
        model.compiled_loss.build(_outputs_of(model.network, phase.task))
        step = tf.function(lambda *batch: strategy.run(model.train_step, (batch,)), jit_compile=True, autograph=False)
        function = step.get_concrete_function(*inputs)
    return TracedStep(
        function=function,
        inputs=inputs,
        batch_size=phase.config.batch_size,
        accumulation_steps=phase.config.accumulation_steps,
        examples=phase.examples_in_epoch,
        updates=phase.plan.total_steps,
        weights=sum(int(variable.shape.num_elements()) for variable in model.trainable_variables),
        model=model,
        stages=len(phases),
    )


def _outputs_of(network: Any, task: Any) -> Any:
    return network.output[0] if task.carries_state else network.output
