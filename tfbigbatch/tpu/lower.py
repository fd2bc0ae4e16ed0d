"""Lowers an experiment to StableHLO for TPUs: python -m tfbigbatch.tpu.lower REQUEST.json, in the environment `lower`.

The environment's TensorFlow is tensorflow-tpu, with the TPU's kernels. Writes step.mlir and step.json into the folder
that the request names.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import traceback
from typing import Any

# Before TensorFlow's import: Keras 2, and no request to a metadata server.
os.environ.update(TF_USE_LEGACY_KERAS="1", TPU_SKIP_MDS_QUERY="1", TF_CPP_MIN_LOG_LEVEL="3")

from tfbigbatch import experiment
from tfbigbatch.errors import InputError

STEP, FACTS = "step.mlir", "step.json"


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Traces, lints, functionalizes and lowers the step of a request.

    Args:
      request: config (path), overrides ('field=value'), replicas, phase, data_dir, micro_batch and folder; see
        `check.CheckRequest`.

    Returns:
      Dictionary: phases (their number), batch_size, per_replica_batch, accumulation_steps, examples, updates, weights,
      variables, state_bytes, recompute (model.recompute, None for a model without it), inputs (shapes and dtypes),
      findings (of the lint), trace_seconds, lower_seconds; and error if it cannot be lowered.
    """
    import tensorflow as tf

    from tfbigbatch.tpu import functionalize, lint, step

    config = experiment.load(request["config"])
    experiment.override(config, request["overrides"])
    started = time.perf_counter()
    options = {name: request[name] for name in ("phase", "data_dir", "micro_batch")}
    traced = step.trace(config, request["replicas"], **options)
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
    with open(os.path.join(request["folder"], STEP), "wb") as file:
        file.write(program)
    return {**found, "lower_seconds": round(time.perf_counter() - started, 1)}


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        request = json.load(file)
    try:
        found = run(request)
    except InputError as error:
        found = {"input_error": str(error)}
    except Exception:
        found = {"crash": traceback.format_exc()}
    found["lower_gib"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)
    with open(os.path.join(request["folder"], FACTS), "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
