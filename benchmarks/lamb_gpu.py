"""One whole LAMB update on a GPU machine that has JAX and no TensorFlow, beside optax's and beside the memory's floor.

    python benchmarks/lamb_gpu.py export --out=DIR [--model=bert_large]
    python benchmarks/lamb_gpu.py run --dir=DIR [--repeats=20] [--results=FILE.json]

`export` needs TensorFlow but no GPU: it writes tfbigbatch.optimizers.rules.lamb over all variables of a model as
one StableHLO module. `run` needs JAX and optax, and of this repository this file alone: it compiles the module with
XLA, weights and slots donated, and times it in turn with optax.lamb on the same shapes and with an in-place copy.
Every layer is decayed and adapted in both. bert_large takes about 15 GB of the GPU's memory. Compare on models of
some 100 MB and more: under that it is the dispatch of the call that is timed.
"""

import argparse
import dataclasses
import functools
import importlib.metadata
import json
import os
import statistics
import sys
import time

MODULE, MANIFEST = "lamb.stablehlo", "lamb.json"
HYPERPARAMETERS = {
    "beta_1": 0.9,
    "beta_2": 0.999,
    "epsilon": 1e-6,
    "weight_decay": 0.01,
    "bias_correction": True,
    "adapt": True,
}
LEARNING_RATE = 0.01
# LAMB cannot touch less, in float32: one pass reads gradient, weight and both slots and writes the slots; the
# update's norm being known only then, a second reads weight and slots again and writes the weight.
BYTES_PER_PARAMETER = 40
# 1 GiB, far more than any cache holds; an in-place pass moves 8 bytes an element.
COPIED_ELEMENTS = 2**28
CHECKED_UPDATES = 3
TOLERANCE = 1e-4
# Of ours over the floor, on a GPU.
TARGET = 1.3


# ------------------------------------------------------------------------------------------------ export


def export(out, model):
    """Writes the update of the model's variables, and the manifest that says what it takes and returns."""
    import variables

    from tfbigbatch.errors import nearest

    if model not in variables.models():
        sys.exit(f"error: --model={model}: unknown. {nearest(model, variables.models())}")
    try:
        import tensorflow as tf
        from tensorflow.compiler.mlir.stablehlo import stablehlo
    except ImportError as error:
        sys.exit(f"error: export needs TensorFlow ({error}). Its CPU wheel is enough: pip install tensorflow-cpu")
    from tfbigbatch.optimizers import rules

    names, shapes = zip(*variables.shapes(model))
    count = len(shapes)

    @tf.function(jit_compile=True, autograph=False)
    def update(*arguments):
        *tensors, step, learning_rate = arguments
        gradients, weights, m, v = (tensors[first : first + count] for first in range(0, 4 * count, count))
        # Without what it returns after weight, m and v.
        rows = [
            rules.lamb(*row, learning_rate=learning_rate, step=step, **HYPERPARAMETERS)[:3]
            for row in zip(gradients, weights, m, v)
        ]
        return [tensor for column in zip(*rows) for tensor in column]

    specs = [tf.TensorSpec(shape) for shape in shapes]
    lower = update.experimental_get_compiler_ir(*4 * specs, tf.TensorSpec([]), tf.TensorSpec([]))
    module = lower(stage="stablehlo_serialized", platform_name="GPU")
    # A portable artifact of the oldest version there is: any JAX reads it, whichever StableHLO it was built with.
    version = stablehlo.get_minimum_version()
    module = stablehlo.serialize_portable_artifact_str(module, version)

    manifest = {
        "model": model,
        "parameters": sum(spec.shape.num_elements() for spec in specs),
        "variables": [[name, list(shape)] for name, shape in zip(names, shapes)],
        "arguments": "gradients, weights, m, v, step, learning_rate",
        "returns": "weights, m, v",
        "hyperparameters": HYPERPARAMETERS,
        "versions": {"tensorflow": tf.__version__, "stablehlo": version},
    }
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, MODULE), "wb") as file:
        file.write(module)
    with open(os.path.join(out, MANIFEST), "w") as file:
        json.dump(manifest, file, indent=1)
    print(f"{model}: {count} variables, {manifest['parameters']:,} parameters; {len(module) / 2**20:.1f} MiB in {out}")


# --------------------------------------------------------------------------------------------------- run


def run(directory, repeats, updates, results):
    """Checks, times and reports; the exit code is 1 where the two do not agree."""
    manifest, module = _exported(directory)
    try:
        import jax
        import optax  # noqa: F401
    except ImportError as error:
        sys.exit(f"error: run needs JAX and optax ({error}). Try: pip install 'jax[cuda12]' optax")
    shapes = [tuple(shape) for _, shape in manifest["variables"]]
    device = jax.devices()[0]
    versions = {name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "optax")}
    print(f"{device.device_kind} ({device.platform}), jax {versions['jax']}, optax {versions['optax']}")
    print(f"{manifest['model']}: {len(shapes)} variables, {manifest['parameters']:,} parameters", flush=True)

    calls, states, compiled = {}, {}, {}
    gradients = _normal(shapes, seed=0)
    # Vectors start at zero, as biases do, so that the rule for zero norms is checked too.
    weights = [(0.02 if normal.ndim > 1 else 0.0) * normal for normal in _normal(shapes, seed=CHECKED_UPDATES)]
    for name, (initial, update) in {"tfbigbatch": _ours(manifest, module), "optax": _optaxs(manifest)}.items():
        # Copies, for what is donated is gone.
        states[name] = initial([weight.copy() for weight in weights])
        calls[name], compiled[name] = _compiled(update, states[name], gradients)
        print(f"{name}: {', '.join(f'{label} {value:,}' for label, value in compiled[name].items())}", flush=True)
    del weights

    for seed in range(CHECKED_UPDATES):
        gradients = _normal(shapes, seed)
        states = {name: call(states[name], gradients=gradients) for name, call in calls.items()}
    difference = _difference(states["tfbigbatch"][0], states["optax"][0])
    print(f"weights after {CHECKED_UPDATES} updates: within {difference:.1e} of each other, {TOLERANCE} allowed")

    timed = {name: functools.partial(call, gradients=gradients) for name, call in calls.items()}
    timed["copy"] = jax.jit(lambda array: array + 1.0, donate_argnums=0)
    states["copy"] = jax.numpy.zeros(COPIED_ELEMENTS, "float32")
    samples, dispatch = _interleaved(timed, states, repeats, updates)
    report = _report(manifest["parameters"], samples, dispatch)
    if results:
        report |= {
            "device": device.device_kind,
            "platform": device.platform,
            "versions": versions | manifest["versions"],
            "model": manifest["model"],
            "parameters": manifest["parameters"],
            "difference": difference,
            "compiled": compiled,
            "samples_ms": samples,
        }
        with open(results, "w") as file:
            json.dump(report, file, indent=1)
    if not difference <= TOLERANCE:
        sys.exit("error: the weights of tfbigbatch and optax do not agree: the times are of different updates.")


def _exported(directory):
    paths = [os.path.join(directory, name) for name in (MANIFEST, MODULE)]
    for path in paths:
        if not os.path.exists(path):
            sys.exit(
                f"error: {path} is not there; expected what `export` writes. Try, where TensorFlow is:\n"
                f"  python {sys.argv[0]} export --out={directory}"
            )
    with open(paths[0]) as manifest, open(paths[1], "rb") as module:
        return json.load(manifest), module.read()


def _ours(manifest, module):
    """The exported module as (weights to state, (state, gradients) to state)."""
    import jax
    import jax.export
    import jax.numpy as jnp

    count = len(manifest["variables"])
    arrays = [jax.ShapeDtypeStruct(tuple(shape), jnp.float32) for _, shape in manifest["variables"]]
    scalar = jax.ShapeDtypeStruct((), jnp.float32)
    # JAX's own export of a function with the module's signature, its code then replaced by ours: Exported has no
    # public constructor whose arguments are the same from one JAX to the next.
    signature = jax.jit(lambda *arguments: arguments[count : 4 * count], keep_unused=True)
    exported = dataclasses.replace(
        jax.export.export(signature)(*4 * arrays, scalar, scalar), mlir_module_serialized=module
    )

    def initial(weights):
        return weights, *([jnp.zeros_like(weight) for weight in weights] for _ in "mv"), jnp.float32(0.0)

    def update(state, gradients):
        weights, m, v, step = state
        out = exported.call(*gradients, *weights, *m, *v, step + 1.0, jnp.float32(LEARNING_RATE))
        return list(out[:count]), list(out[count : 2 * count]), list(out[2 * count :]), step + 1.0

    return initial, update


def _optaxs(manifest):
    """optax.lamb with the module's hyperparameters, as (weights to state, (state, gradients) to state)."""
    import optax

    given = manifest["hyperparameters"]
    lamb = optax.lamb(
        LEARNING_RATE, b1=given["beta_1"], b2=given["beta_2"], eps=given["epsilon"], weight_decay=given["weight_decay"]
    )

    def update(state, gradients):
        weights, slots = state
        updates, slots = lamb.update(gradients, slots, weights)
        return optax.apply_updates(weights, updates), slots

    return lambda weights: (weights, lamb.init(weights)), update


def _normal(shapes, seed):
    import jax
    import numpy as np

    draw = np.random.default_rng(seed)
    return [jax.device_put(draw.standard_normal(shape, np.float32)) for shape in shapes]


def _compiled(update, state, gradients):
    """The update compiled with its state donated, and what the compiler says of it."""
    import jax

    lowered = jax.jit(update, donate_argnums=0).lower(state, gradients=gradients)
    start = time.perf_counter()
    compiled = lowered.compile()
    facts = {"compile_s": round(time.perf_counter() - start, 1)}
    # In place are weights and slots if this is 12 bytes a parameter.
    if memory := compiled.memory_analysis():
        facts |= {"in_place_bytes": memory.alias_size_in_bytes, "temporary_bytes": memory.temp_size_in_bytes}
    return compiled, facts


def _difference(ours, theirs):
    """Largest relative difference of an entry, those under 1e-3 counted as 1e-3."""
    import numpy as np

    pairs = ((np.asarray(our), np.asarray(their)) for our, their in zip(ours, theirs))
    return max(float(np.max(np.abs(our - their) / np.maximum(np.abs(their), 1e-3))) for our, their in pairs)


def _interleaved(calls, states, repeats, updates):
    """Milliseconds of one call, and those until it was only enqueued, by name; each sample is of `updates` in a row."""
    import jax

    samples, dispatch = {name: [] for name in calls}, {name: [] for name in calls}
    for _ in range(repeats + 1):
        for name, call in calls.items():
            state = jax.block_until_ready(states[name])
            start = time.perf_counter()
            for _ in range(updates):
                state = call(state)
            enqueued = time.perf_counter()
            states[name] = jax.block_until_ready(state)
            samples[name].append(1e3 * (time.perf_counter() - start) / updates)
            dispatch[name].append(1e3 * (enqueued - start) / updates)
    # The first round warms up.
    return ({name: column[1:] for name, column in columns.items()} for columns in (samples, dispatch))


def _report(parameters, samples, dispatch):
    """Prints and returns medians, floor and ratios."""
    ms = {name: statistics.median(column) for name, column in samples.items()}
    dispatch_ms = {name: statistics.median(column) for name, column in dispatch.items()}
    bandwidth = 8 * COPIED_ELEMENTS / (ms["copy"] / 1e3)
    floor_ms = 1e3 * BYTES_PER_PARAMETER * parameters / bandwidth
    ratios = {"ours/floor": ms["tfbigbatch"] / floor_ms, "optax/ours": ms["optax"] / ms["tfbigbatch"]}
    print(f"ms of one update, medians of {len(samples['copy'])}, and of that until it is enqueued:")
    for name in ("tfbigbatch", "optax"):
        print(f"  {name}: {ms[name]:.3f}, {dispatch_ms[name]:.3f}")
    print(f"floor: {floor_ms:.3f} ms, {BYTES_PER_PARAMETER} bytes a parameter at the copy's {bandwidth / 1e9:.1f} GB/s")
    print(f"ours/floor: {ratios['ours/floor']:.2f}, to be at most {TARGET}; optax/ours: {ratios['optax/ours']:.2f}")
    return {"ms": ms, "dispatch_ms": dispatch_ms, "bytes_per_s": bandwidth, "floor_ms": floor_ms, "ratios": ratios}


# ----------------------------------------------------------------------------------------------- command


def _main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    exporting = commands.add_parser("export", help="write the update as StableHLO; needs TensorFlow")
    exporting.add_argument("--out", required=True, metavar="DIR", help="folder to write to")
    exporting.add_argument("--model", default="bert_large", help="whose variables, of those in variables.py")
    running = commands.add_parser("run", help="time it; needs JAX and optax")
    running.add_argument("--dir", required=True, help="folder that export wrote")
    running.add_argument("--repeats", type=_positive, default=20, help="timed rounds, after one to warm up (20)")
    running.add_argument("--updates", type=_positive, default=10, help="updates in a row in one timing (10)")
    running.add_argument("--results", metavar="FILE", help="write all numbers there, as JSON")
    given = parser.parse_args()
    if given.command == "export":
        export(given.out, given.model)
    else:
        run(given.dir, given.repeats, given.updates, given.results)


def _positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected 1 or more")
    return number


if __name__ == "__main__":
    _main()
