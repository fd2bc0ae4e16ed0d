"""Lowers an experiment to StableHLO for TPUs: python -m tfbigbatch.tpu.lower ASKED.json FOUND.json, in `lower`.

The environment's TensorFlow is tensorflow-tpu, with the TPU's kernels. Writes step.mlir into the folder that the
request names, and the answer.
"""

from __future__ import annotations

import os
import time
from typing import Any

# Before TensorFlow's import: Keras 2, and no request to a metadata server.
os.environ.update(TF_USE_LEGACY_KERAS="1", TPU_SKIP_MDS_QUERY="1", TF_CPP_MIN_LOG_LEVEL="3")

import tensorflow as tf

from tfbigbatch import experiment
from tfbigbatch.tpu import check, functionalize, lint, step


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Traces, lints, functionalizes and lowers the step of a request.

    Args:
      request: config (path), overrides ('field=value'), replicas, phase, data_dir and folder; see
        `check.CheckRequest`.

    Returns:
      Dictionary: phases (their number), batch_size, per_replica_batch, accumulation_steps, examples, updates, weights,
      variables, state_bytes, recompute (model.recompute, None for a model without it), inputs (shapes and dtypes),
      findings (of the lint), trace_seconds, lower_seconds; and error if it cannot be lowered.
    """
    config = experiment.load(request["config"])
    experiment.override(config, request["overrides"])
    started = time.perf_counter()
    traced = step.trace(config, request["replicas"], phase=request["phase"], data_dir=request["data_dir"])
    trace_seconds = time.perf_counter() - started
    pure = functionalize.functionalize(traced.function)
    found = {
        "phases": max(len(config.phases), traced.stages),
        "batch_size": traced.batch_size,
        "per_replica_batch": traced.batch_size // request["replicas"],
        "accumulation_steps": traced.accumulation_steps,
        "examples": traced.examples,
        "updates": traced.updates,
        "weights": traced.weights,
        "variables": len(pure.variables),
        "state_bytes": sum(each.shape.num_elements() * each.dtype.size for each in pure.variables),
        "recompute": config.model.get("recompute"),
        "inputs": [f"{each.dtype.name}{each.shape.as_list()}" for each in tf.nest.flatten(traced.inputs)],
        "findings": [finding._asdict() for finding in lint.findings(traced.function)],
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
    check.answer(run, "lower_gib")
