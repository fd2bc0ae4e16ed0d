"""The trainer's step on a GPU machine that has JAX and no TensorFlow; `optimizers.py` times the optimizers there.

    python benchmarks/gpu.py export --out=DIR --config=bert/tiny [--override=batch_size=64]
    python benchmarks/gpu.py run --dir=DIR [--results=FILE.json]

`export` needs TensorFlow but no GPU: it writes the step as StableHLO, a pure function from a batch and the variables to
the metrics and the new variables, with what it gives on this CPU. `run` needs JAX, and of this repository this file
alone: it compiles the module with XLA, its state donated, checks one step of it, and times it. Without a GPU it says
that it was skipped; --device=cpu runs it on the CPU, to try.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import sys
import time
from typing import Any

# Of a result or a variable's movement in one step, relative, where products may have as few as 8 bits (TF32 has 11,
# bfloat16 8).
TOLERANCE = 5e-2
# What the integers of a batch are below, by name; those of a fine-tuning or translation task are not here.
_BELOW = {"input_word_ids": 1_000, "input_type_ids": 2, "masked_lm_positions": 32, "masked_lm": 1_000}
_BELOW |= {"next_sentence": 2, "images": 256, "labels": 10}


def made(described: Any) -> list[Any]:
    """NumPy arrays from their (shape, dtype, kind), the same on every machine.

    A kind is a number; 'weight', for normal values; or {'below': n} for integers.
    """
    import numpy as np

    arrays = []
    for number, (shape, dtype, kind) in enumerate(described):
        draw = np.random.default_rng([0, number])
        if isinstance(kind, dict):
            values = draw.integers(0, kind["below"], shape)
        elif kind == "weight":
            values = draw.standard_normal(shape, np.float32) * np.float32(0.02)
        else:
            values = np.full(shape, kind, dtype)
        arrays.append(np.asarray(values, dtype))
    return arrays


def moved(before: Any, after: Any) -> list[float]:
    """The length of each array's change, in float64."""
    import numpy as np

    changes = (np.subtract(new, old, dtype=np.float64) for old, new in zip(before, after))
    return [float(np.linalg.norm(change.ravel())) for change in changes]


# ----------------------------------------------------------------------------------------------------------- export


def export(name: str, overrides: list[str], out: str) -> None:
    """Writes the step of an experiment, and the manifest that says what it takes and returns.

    Args:
      name: of the experiment.
      overrides: FIELD=VALUE for its config.
      out: folder.

    Raises:
      ValueError: the config cannot be traced.
    """
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    import numpy as np
    import tensorflow as tf
    from tensorflow.compiler.mlir.stablehlo import stablehlo

    from tfbigbatch.config import load_config, override
    from tfbigbatch.tpu import functionalize, step

    config = load_config(name)
    override(config, overrides)
    traced = step.trace(config, 1)
    pure = functionalize.functionalize(traced.function)
    compiled = tf.function(pure.function, jit_compile=True, autograph=False)
    outputs = compiled.get_concrete_function(*pure.specs).outputs
    results = outputs[: len(outputs) - len(pure.variables)]
    trained = {functionalize.tensor_id(weight.handle) for weight in traced.model.trainable_variables}
    inputs = tf.nest.flatten(traced.inputs)
    manifest = {
        "config": name,
        "overrides": overrides,
        "parameters": traced.weights,
        "batch_size": traced.phase.config.batch_size,
        "inputs": [[*_described(spec), kind] for spec, kind in zip(inputs, _kinds(traced.inputs))],
        "state": [
            [*_described(each), _first_value(each, functionalize.tensor_id(each.handle) in trained)]
            for each in pure.variables
        ],
        "results": [_described(each) for each in results],
        "tensorflow": tf.__version__,
    }
    state = made(manifest["state"])
    found = [each.numpy() for each in compiled(*made(manifest["inputs"]), *state)]
    expected = [np.asarray(each, np.float64).ravel().tolist() for each in found[: len(results)]]
    manifest["expected"] = {"results": expected, "moved": moved(state, found[len(results) :])}
    module = compiled.experimental_get_compiler_ir(*pure.specs)(stage="stablehlo_serialized", platform_name="GPU")
    # A portable artifact of the oldest version there is: any JAX reads it, whichever StableHLO it was built with.
    module = stablehlo.serialize_portable_artifact_str(module, stablehlo.get_minimum_version())
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "step.stablehlo"), "wb") as file:
        file.write(module)
    with open(os.path.join(out, "step.json"), "w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1)
    print(f"{name}: {traced.weights:,} parameters, {len(module) / 2**20:.1f} MiB in {out}")


def _described(spec: Any) -> list[Any]:
    return [list(spec.shape), spec.dtype.name]


def _kinds(inputs: Any) -> list[Any]:
    """The kind of each tensor of a batch (inputs, labels, weights), in the order of tf.nest."""
    kinds = []
    for part, name in zip(inputs, ("images", "labels", "weights")):
        leaves = part if isinstance(part, dict) else {name: part}
        for leaf, spec in sorted(leaves.items()):
            # Weights and masks are ones.
            kinds.append({"below": _BELOW[leaf]} if spec.dtype.is_integer and leaf in _BELOW else 1)
    return kinds


def _first_value(variable: Any, is_trained: bool) -> Any:
    """The kind of a variable's value; biases and slots are 0."""
    name = variable.name.split(":")[0]
    if name.endswith(("gamma", "moving_variance")) and not name.startswith(("m/", "v/", "momentum/")):
        return 1
    if is_trained:
        return "weight" if variable.shape.rank > 1 else 0
    # The learning rate is one of them.
    return float(variable.numpy()) if variable.shape.rank == 0 else 0


# -------------------------------------------------------------------------------------------------------------- run


def run(directory: str, device: str, rounds: int, steps: int, results: str | None) -> None:
    """Checks and times the step of a folder; the exit code is 1 where it does not agree."""
    try:
        with open(os.path.join(directory, "step.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        with open(os.path.join(directory, "step.stablehlo"), "rb") as module:
            program = module.read()
    except OSError as error:
        sys.exit(f"error: {error}; expected what `{sys.argv[0]} export --out={directory}` writes, where TensorFlow is.")
    import jax

    if device == "cpu":
        jax.config.update("jax_platforms", "cpu")
    # The counters of steps are int64.
    jax.config.update("jax_enable_x64", True)
    found = jax.devices()[0]
    if device == "gpu" and found.platform != "gpu":
        print(f"skipped: there is no GPU, JAX {jax.__version__} has {found.platform} only; --device=cpu tries it here.")
        return
    inputs, state = jax.device_put(made(manifest["inputs"])), made(manifest["state"])
    started = time.perf_counter()
    step = jax.jit(_call(manifest, program), donate_argnums=0).lower(jax.device_put(state), inputs).compile()
    print(f"{found.device_kind}, JAX {jax.__version__}: compiled in {time.perf_counter() - started:.1f} s", flush=True)
    difference = _difference(manifest, step, state, inputs)
    milliseconds, after = [], jax.device_put(state)
    for _ in range(rounds + 1):
        jax.block_until_ready(after)
        started = time.perf_counter()
        for _ in range(steps):
            _, after = step(after, inputs)
        jax.block_until_ready(after)
        milliseconds.append(1e3 * (time.perf_counter() - started) / steps)
    middle = statistics.median(milliseconds[1:])
    speed = 1e3 * manifest["batch_size"] / middle
    print(f"{manifest['config']}: {middle:.3f} ms a step, {speed:,.0f} examples a second")
    if results:
        content = {"device": found.device_kind, "jax": jax.__version__, "milliseconds": milliseconds[1:]}
        facts = {name: manifest[name] for name in ("config", "overrides", "parameters", "batch_size", "tensorflow")}
        with open(results, "w", encoding="utf-8") as file:
            json.dump({**facts, **content, "difference": difference}, file, indent=1)
    if not difference <= TOLERANCE:
        sys.exit(f"error: the step differs from the CPU's by {difference:.1e}: the times are of something else.")


def _call(manifest: dict[str, Any], program: bytes) -> Any:
    """The module as a function of (state, inputs) to (results, new state)."""
    import jax
    import jax.export
    import jax.numpy as jnp

    inputs = len(manifest["inputs"])
    described = [each[:2] for each in (*manifest["inputs"], *manifest["state"])]
    arguments = [jax.ShapeDtypeStruct(tuple(shape), dtype) for shape, dtype in described]

    # JAX's own export of a function with the module's signature, its code then replaced by ours: Exported has no
    # public constructor whose arguments stay the same between versions of JAX.
    def signature(*arguments: Any) -> list[Any]:
        return [*(jnp.zeros(shape, dtype) for shape, dtype in manifest["results"]), *arguments[inputs:]]

    exported = jax.export.export(jax.jit(signature, keep_unused=True))(*arguments)
    exported = dataclasses.replace(exported, mlir_module_serialized=program)

    def call(state: Any, batch: Any) -> tuple[Any, Any]:
        outputs = exported.call(*batch, *state)
        return outputs[: len(manifest["results"])], list(outputs[len(manifest["results"]) :])

    return call


def _difference(manifest: dict[str, Any], step: Any, state: Any, inputs: Any) -> float:
    """Largest relative difference of a result, or of a variable's movement, from those of the manifest in one step.

    Movements under a thousandth of the largest are counted as that.
    """
    import jax
    import numpy as np

    results, after = step(jax.device_put(state), inputs)
    expected = manifest["expected"]
    pairs = [(np.ravel(each), np.array(value), 1e-3) for each, value in zip(results, expected["results"])]
    moves = np.array(moved(state, [np.asarray(each) for each in after]))
    pairs.append((moves, np.array(expected["moved"]), 1e-3 * max(expected["moved"])))
    return max(
        float(np.max(np.abs(found - value) / np.maximum(np.abs(value), least), initial=0.0))
        for found, value, least in pairs
    )


def main() -> None:
    """Exports or runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    exporting = commands.add_parser("export", help="write the step as StableHLO; needs TensorFlow")
    exporting.add_argument("--out", required=True, help="folder to write to")
    exporting.add_argument("--config", default="bert/tiny", help="experiment (bert/tiny)")
    exporting.add_argument("--override", action="append", default=[], help="FIELD=VALUE of it")
    running = commands.add_parser("run", help="check and time it; needs JAX")
    running.add_argument("--dir", required=True, help="folder that export wrote")
    running.add_argument("--device", choices=("gpu", "cpu"), default="gpu", help="cpu to try it without a GPU")
    running.add_argument("--rounds", type=int, default=20, help="timed, after one to warm up (20)")
    running.add_argument("--steps", type=int, default=10, help="in a row in one timing (10)")
    running.add_argument("--results", help="also write the figures to this JSON file")
    given = parser.parse_args()
    if given.command == "export":
        export(given.config, given.override, given.out)
    else:
        run(given.dir, given.device, given.rounds, given.steps, given.results)


if __name__ == "__main__":
    main()
