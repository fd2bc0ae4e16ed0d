"""Traces the training step of an experiment as one replica of a TPU slice runs it, and lowers it to StableHLO.

As a process in the environment `lower`, whose TensorFlow is tensorflow-tpu with the TPU's kernels, it writes step.mlir
into the folder that its request names: python -m tfbigbatch.tpu.step.
"""

from __future__ import annotations

import copy
import functools
import os
import tempfile
import time
import typing
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfbigbatch import tasks
from tfbigbatch.config import load_config, override, recipe
from tfbigbatch.config.fields import AUTO
from tfbigbatch.errors import InputError
from tfbigbatch.tpu import check, functionalize, lint, stub_datasets
from tfbigbatch.tpu.strategy import AheadOfTimeStrategy
from tfbigbatch.training import phases as run_phases
from tfbigbatch.training.build import compiled_network
from tfbigbatch.training.precision import set_up_keras
from tfbigbatch.training.step import TrainingSteps
from tfbigbatch.training.streams import StreamStates


class TracedStep(typing.NamedTuple):
    """A training step of one phase.

    Attributes:
      function: tf.ConcreteFunction of a replica's batch, flat.
      inputs: nest of tf.TensorSpec of the replica's batch.
      phase: of the run, with its config.
      model: keeps the variables alive; the function has only their handles.
      phases: their number in the run, or that of the stages of its batch ramp.
    """

    function: Any
    inputs: Any
    phase: run_phases.Phase
    model: keras.Model
    phases: int

    @property
    def weights(self) -> int:
        """Number of trainable parameters."""
        return sum(int(variable.shape.num_elements()) for variable in self.model.trainable_variables)


def trace(config: Any, replicas: int, *, phase: int = 1, data_dir: str | None = None) -> TracedStep:
    """Builds an experiment's model and optimizer, and traces its training step for one of `replicas`.

    Args:
      config: ml_collections.ConfigDict of the experiment.
      replicas: in sync.
      phase: of the run, counted from 1.
      data_dir: prepared data that sets the shapes; None for the shapes of the public data set.

    Raises:
      ValueError: the batch does not divide over the replicas, there is no such phase, or the config is invalid.
    """
    precision = "bfloat16" if config.mixed_precision == AUTO else config.mixed_precision
    if precision == "float16":
        raise InputError(
            "mixed_precision=float16: a TPU computes in bfloat16; set mixed_precision to bfloat16 or float32."
        )
    set_up_keras(config.seed, precision)
    with tempfile.TemporaryDirectory() as folder:

        def make_task(fields: Any) -> Any:
            data = stub_datasets.write(fields, os.path.join(folder, "data")) if data_dir is None else data_dir
            # The values of a checkpoint do not change the step.
            model = {name: "" if name == "init_checkpoint" else value for name, value in fields.model.to_dict().items()}
            return tasks.get(fields.task)(model=model, data=fields.data.to_dict(), data_dir=data, use_fake_data=False)

        config = copy.deepcopy(config)
        # On a TPU, TPUStrategy loops over steps and compiles.
        config.jit_compile = False
        count = max(1, len(config.phases))
        if config.ramp.name == "none":
            # This phase alone: the batch of another may not divide over these replicas.
            config, phase = _numbered(recipe.phases(config), phase), 1
        # The stages of a batch ramp are phases too.
        phases = run_phases.phases_of(config, make_task, replicas)
        return _traced(_numbered(phases, phase), phases, replicas)._replace(phases=max(count, len(phases)))


def _numbered(phases: Sequence[Any], phase: int) -> Any:
    if not 1 <= phase <= len(phases):
        raise InputError(f"--phase={phase}: the run has {len(phases)} phase(s), counted from 1.")
    return phases[phase - 1]


def _traced(phase: run_phases.Phase, phases: Sequence[run_phases.Phase], replicas: int) -> TracedStep:
    strategy = AheadOfTimeStrategy(replicas)
    context = tf.distribute.InputContext(1, 0, replicas)
    inputs = phase.task.train.training_batches(
        context, batch_size=phase.config.batch_size, seed=0, first_step=0, last_step=1
    ).element_spec
    with strategy.scope():
        network = compiled_network(phase.config, phases)
        steps = TrainingSteps(
            network,
            strategy=strategy,
            accumulation_steps=phase.config.accumulation_steps,
            seed=phase.config.seed,
            metrics_in_training=phase.task.metrics_in_training,
            batch_slices=phase.task.batch_slices,
            streams=StreamStates(network, phase.config.batch_size) if phase.task.carries_state else None,
        )
        steps.build(inputs)
        # The number of a step, of which only dropout's masks depend, is a constant here.
        in_replica = functools.partial(steps.in_replica, step=tf.constant(0, tf.int64))
        step = tf.function(lambda *batch: strategy.run(in_replica, (batch,)), jit_compile=True, autograph=False)
        return TracedStep(step.get_concrete_function(*inputs), inputs, phase, network, len(phases))


def lower(request: dict[str, Any]) -> dict[str, Any]:
    """Traces, lints, functionalizes and lowers the step of a request.

    Args:
      request: config (path), overrides ('field=value'), replicas, phase, data_dir and folder; see `check.check`.

    Returns:
      Dictionary: phases (their number), batch_size, per_replica_batch, accumulation_steps, weights, variables,
      state_bytes, recompute (model.recompute, None for a model without it), inputs (shapes and dtypes), findings (of
      the lint), trace_seconds, lower_seconds; and error if it cannot be lowered.
    """
    config = load_config(request["config"])
    override(config, request["overrides"])
    started = time.perf_counter()
    traced = trace(config, request["replicas"], phase=request["phase"], data_dir=request["data_dir"])
    trace_seconds = time.perf_counter() - started
    pure, batch_size = functionalize.functionalize(traced.function), traced.phase.config.batch_size
    found = {
        "phases": traced.phases,
        "batch_size": batch_size,
        "per_replica_batch": batch_size // request["replicas"],
        "accumulation_steps": traced.phase.config.accumulation_steps,
        "weights": traced.weights,
        "variables": len(pure.variables),
        "state_bytes": sum(each.shape.num_elements() * each.dtype.size for each in pure.variables),
        "recompute": config.model.get("recompute"),
        "inputs": [f"{each.dtype.name}{each.shape.as_list()}" for each in tf.nest.flatten(traced.inputs)],
        "findings": lint.findings(traced.function),
        "trace_seconds": round(trace_seconds, 1),
    }
    started = time.perf_counter()
    try:
        compiled = tf.function(pure.function, jit_compile=True, autograph=False)
        program = compiled.experimental_get_compiler_ir(*pure.specs)(stage="stablehlo_serialized", platform_name="TPU")
    except Exception as error:  # TensorFlow raises compiler errors of many types.
        return {**found, "error": str(error).strip() or type(error).__name__}
    with open(os.path.join(request["folder"], "step.mlir"), "wb") as file:
        file.write(program)
    return {**found, "lower_seconds": round(time.perf_counter() - started, 1)}


if __name__ == "__main__":
    check.answer(lower)
