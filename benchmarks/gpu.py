"""LAMB's and Muon's updates and a training step on a GPU machine that has JAX and no TensorFlow, beside the floor.

    python benchmarks/gpu.py export --out=DIR [--program=step --model='bert/tiny batch_size=64']
    python benchmarks/gpu.py run --dir=DIR [--results=FILE.json]

`export` needs TensorFlow but no GPU: it writes one StableHLO module a program. `run` needs JAX and optax, and of this
repository this file alone: it compiles each module with XLA, its state donated, checks one step of it against what
TensorFlow gave on a CPU (LAMB: three against optax), and times it in turn with an in-place copy and a product of two
matrices, LAMB with optax.lamb too. Without a GPU it says that it was skipped; --device=cpu runs it on the CPU, to try.

The floor is what must be moved over the copy's bandwidth, and the operations over the product's rate. Beside it stands
an update within a loop that is one program; called one by one, with hundreds of arrays each, it is the dispatch that
is timed.
"""

import argparse
import concurrent.futures
import contextlib
import dataclasses
import glob
import importlib.metadata
import json
import os
import statistics
import sys
import time

PROGRAMS = ("lamb", "muon", "step")
LAMB = {
    "beta_1": 0.9,
    "beta_2": 0.999,
    "epsilon": 1e-6,
    "weight_decay": 0.01,
    "bias_correction": True,
    "adapt": True,
}
LEARNING_RATE = 0.01
CHECKED_UPDATES = 3
# The largest difference allowed between LAMB's weights and optax's, and, relative, between one step here and on another
# device, whose products may have as few as 8 bits (TF32 has 11, bfloat16 8).
TOLERANCE, TOLERANCE_OF_STEP = 1e-4, 5e-2
# Of ours over the floor, on a GPU.
TARGETS = {"lamb": 1.3}
# Of what is measured within one program of several updates; the others are called one after the other.
IN_A_LOOP = " in a loop"
# To measure bandwidth and arithmetic: the float32 elements of a vector that is read and written in place, 8 bytes each
# (1 GiB on a GPU, more than any cache holds), and the side of two square matrices that are multiplied.
SIZES = {"gpu": (2**28, 8192), "cpu": (2**24, 512)}


# ------------------------------------------------------------------------------------------- made-up values


def made(described, seed=0):
    """NumPy arrays from their (shape, dtype, kind), the same on every machine.

    A kind is a number; 'normal'; 'weight', a fiftieth of that; or {'below': n} for integers.
    """
    import numpy as np

    def array(number, shape, dtype, kind):
        draw = np.random.default_rng([seed, number])
        if isinstance(kind, dict):
            values = draw.integers(0, kind["below"], shape)
        elif isinstance(kind, str):
            values = draw.standard_normal(shape, np.float32)
            values *= np.float32({"normal": 1.0, "weight": 0.02}[kind])
        else:
            values = np.full(shape, kind, dtype)
        return np.asarray(values, dtype)

    # NumPy draws without Python's lock, and each array has a generator of its own.
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(lambda numbered: array(numbered[0], *numbered[1]), enumerate(described)))


def moved(before, after):
    """The length of each array's change, in float64."""
    import numpy as np

    changes = (np.subtract(new, old, dtype=np.float64) for old, new in zip(before, after))
    return [float(np.linalg.norm(change.ravel())) for change in changes]


# --------------------------------------------------------------------------------------------------- run


def run(directory, device, repeats, updates, results):
    """Checks, times and reports every program of a folder; the exit code is 1 where one does not agree."""
    programs = _exported(directory)
    try:
        import jax
        import optax  # noqa: F401
    except ImportError as error:
        sys.exit(f"error: run needs JAX and optax ({error}). Try: pip install 'jax[cuda12]' optax")
    if device == "cpu":
        jax.config.update("jax_platforms", "cpu")
    # The counters of steps are int64.
    jax.config.update("jax_enable_x64", True)
    found = jax.devices()[0]
    if device == "gpu" and found.platform != "gpu":
        print(
            f"skipped: there is no GPU, JAX {jax.__version__} has {found.platform} only. Run this on a machine with "
            "one and pip install 'jax[cuda12]' optax; --device=cpu tries it here."
        )
        return
    versions = {name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "optax")}
    print(f"{found.device_kind} ({found.platform}), jax {versions['jax']}, optax {versions['optax']}")
    reports = {}
    for name, (manifest, module) in programs.items():
        print(f"{name} of {manifest['model']}: {manifest['parameters']:,} parameters", flush=True)
        reports[name] = _measured(manifest, module, SIZES[device], repeats, updates)
    if results:
        content = {"device": found.device_kind, "platform": found.platform, "versions": versions, "programs": reports}
        with open(results, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
    if wrong := [name for name, report in reports.items() if report["agrees"] is False]:
        sys.exit(f"error: {', '.join(wrong)} did not give what was expected: the times are of something else.")


def _exported(directory):
    """(manifest, module) by program."""
    found = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(directory), "*.stablehlo"))):
        with open(path, "rb") as module, contextlib.suppress(FileNotFoundError):
            with open(f"{path.removesuffix('.stablehlo')}.json", encoding="utf-8") as manifest:
                read = json.load(manifest)
            found[read["program"]] = read, module.read()
    if not found:
        sys.exit(
            f"error: {directory} has no module; expected what `export` writes. Try, where TensorFlow is:\n"
            f"  python {sys.argv[0]} export --out={directory}"
        )
    return found


def _measured(manifest, module, sizes, repeats, updates):
    """Compiles, checks and times one program; what `--results` holds of it."""
    import jax
    import jax.numpy as jnp

    inputs = jax.device_put(made(manifest["inputs"]))
    state = made(each[1:] for each in manifest["state"])
    ours = _exported_call(manifest, module)
    call, compiled = _compiled(ours, jax.device_put(state), inputs)
    # A backend may not count operations.
    facts = (f"{label} {value:,}" for label, value in compiled.items() if value is not None)
    print(f"  compiled: {', '.join(facts)}", flush=True)
    calls, states = {"tfbigbatch": lambda state: call(state, inputs)[1]}, {"tfbigbatch": jax.device_put(state)}
    loops = {"tfbigbatch": _loop(lambda *arguments: ours(*arguments)[1], states["tfbigbatch"], inputs, updates)}
    if manifest["program"] == "lamb":
        weights = jax.device_put(state[: len(inputs)])
        initial, update = _optaxs()
        states["optax"] = initial(weights)
        calls["optax"], _ = _compiled(update, states["optax"], inputs)
        difference, allowed = _beside_optax(manifest, call, calls["optax"], states), TOLERANCE
        loops["optax"] = _loop(update, states["optax"], inputs, updates)
        optax_call = calls["optax"]
        calls["optax"] = lambda state: optax_call(state, inputs)
    elif "expected" in manifest:
        difference, allowed = _beside_cpu(manifest, call, state, inputs), TOLERANCE_OF_STEP
    else:
        difference = None
    if difference is None:
        print("  not checked: exported with --unchecked")
    else:
        print(f"  difference from {'optax' if 'optax' in calls else 'the CPU'}: {difference:.1e}, {allowed} allowed")

    elements, side = sizes
    calls["copy"] = jax.jit(lambda array: array + 1.0, donate_argnums=0)
    states["copy"] = jnp.zeros(elements, jnp.float32)
    matrix = jnp.full((side, side), 1.0 / side, manifest.get("products", "float32"))
    product = jax.jit(lambda left: (left @ matrix).astype(left.dtype))
    calls["product"], states["product"] = product, matrix
    samples, dispatch = _interleaved(calls, states, repeats, updates)
    in_loops, _ = _interleaved(loops, states, repeats, 1)
    samples |= {f"{name}{IN_A_LOOP}": [each / updates for each in column] for name, column in in_loops.items()}
    flops = compiled.pop("flops") if manifest["flops"] is None else manifest["flops"]
    return {
        **_report(manifest, flops, samples, dispatch, elements, side),
        "model": manifest["model"],
        "parameters": manifest["parameters"],
        "difference": difference,
        "agrees": None if difference is None else bool(difference <= allowed),
        "compiled": compiled,
        "exported_by": manifest["versions"],
        "samples_ms": samples,
    }


def _exported_call(manifest, module):
    """The module as a function of (state, inputs) to (results, new state)."""
    import jax
    import jax.export
    import jax.numpy as jnp

    inputs = len(manifest["inputs"])
    described = [each[:2] for each in manifest["inputs"]] + [each[1:3] for each in manifest["state"]]
    arguments = [jax.ShapeDtypeStruct(tuple(shape), dtype) for shape, dtype in described]

    # JAX's own export of a function with the module's signature, its code then replaced by ours: Exported has no
    # public constructor whose arguments stay the same between versions of JAX.
    def signature(*arguments):
        return [*(jnp.zeros(shape, dtype) for shape, dtype in manifest["results"]), *arguments[inputs:]]

    exported = jax.export.export(jax.jit(signature, keep_unused=True))(*arguments)
    exported = dataclasses.replace(exported, mlir_module_serialized=module)

    def call(state, inputs):
        outputs = exported.call(*inputs, *state)
        return outputs[: len(manifest["results"])], list(outputs[len(manifest["results"]) :])

    return call


def _optaxs():
    """optax.lamb as (weights to state, (state, gradients) to state)."""
    import optax

    lamb = optax.lamb(
        LEARNING_RATE, b1=LAMB["beta_1"], b2=LAMB["beta_2"], eps=LAMB["epsilon"], weight_decay=LAMB["weight_decay"]
    )

    def update(state, gradients):
        weights, slots = state
        updates, slots = lamb.update(gradients, slots, weights)
        return optax.apply_updates(weights, updates), slots

    return lambda weights: (weights, lamb.init(weights)), update


def _compiled(function, state, inputs):
    """The function compiled with its state donated, and what the compiler says of it."""
    import jax

    lowered = jax.jit(function, donate_argnums=0).lower(state, inputs)
    start = time.perf_counter()
    compiled = lowered.compile()
    facts = {"compile_s": round(time.perf_counter() - start, 1), "flops": (lowered.cost_analysis() or {}).get("flops")}
    # In place is LAMB's state if this is 12 bytes a parameter.
    if memory := compiled.memory_analysis():
        facts |= {"in_place_bytes": memory.alias_size_in_bytes, "temporary_bytes": memory.temp_size_in_bytes}
    return compiled, facts


def _loop(update, state, inputs, updates):
    """A state's function of several updates in one program: no call of each is enqueued."""
    import jax

    def looped(state, inputs):
        return jax.lax.fori_loop(0, updates, lambda _, state: update(state, inputs), state)

    compiled, _ = _compiled(looped, state, inputs)
    return lambda state: compiled(state, inputs)


def _beside_optax(manifest, ours, theirs, states):
    """Largest relative difference of a weight after three updates, those under 1e-3 counted as 1e-3."""
    import jax
    import numpy as np

    for seed in range(CHECKED_UPDATES):
        gradients = jax.device_put(made(manifest["inputs"], seed))
        states["tfbigbatch"] = ours(states["tfbigbatch"], gradients)[1]
        states["optax"] = theirs(states["optax"], gradients)
    pairs = ((np.asarray(our), np.asarray(their)) for our, their in zip(states["tfbigbatch"], states["optax"][0]))
    return max(float(np.max(np.abs(our - their) / np.maximum(np.abs(their), 1e-3))) for our, their in pairs)


def _beside_cpu(manifest, call, state, inputs):
    """Largest relative difference of a result, or of a variable's movement, from those of the manifest in one step.

    Movements under a thousandth of the largest are counted as that.
    """
    import jax
    import numpy as np

    results, after = call(jax.device_put(state), inputs)
    expected = manifest["expected"]
    pairs = [(np.ravel(each), np.array(value), 1e-3) for each, value in zip(results, expected["results"])]
    moves = np.array(moved(state, [np.asarray(each) for each in after]))
    pairs.append((moves, np.array(expected["moved"]), 1e-3 * max(expected["moved"])))
    return max(
        float(np.max(np.abs(found - value) / np.maximum(np.abs(value), least), initial=0.0))
        for found, value, least in pairs
    )


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


def _report(manifest, flops, samples, dispatch, elements, side):
    """Prints and returns medians, floor and ratios; a floor of 0 is none."""
    ms, dispatch_ms = (
        {name: statistics.median(column) for name, column in columns.items()} for columns in (samples, dispatch)
    )
    in_a_loop = ms[f"tfbigbatch{IN_A_LOOP}"]
    bandwidth, rate = 8 * elements / ms["copy"] * 1e3, 2 * side**3 / ms["product"] * 1e3
    floor_ms = 1e3 * (manifest["bytes"] / bandwidth + (flops or 0) / rate)
    ratios = {"ours/floor": in_a_loop / floor_ms} if floor_ms else {}
    if "optax" in ms:
        ratios["optax/ours"] = ms[f"optax{IN_A_LOOP}"] / in_a_loop
    for name in ("tfbigbatch", "optax"):
        if name in ms:
            print(
                f"  {name}: {ms[f'{name}{IN_A_LOOP}']:.3f} ms in one program of several; called one by one "
                f"{ms[name]:.3f} ms, {dispatch_ms[name]:.3f} until it is enqueued; of {len(samples[name])}"
            )
    print(
        f"  floor: {floor_ms:.3f} ms, {manifest['bytes']:,} bytes at the copy's {bandwidth / 1e9:.1f} GB/s and "
        f"{(flops or 0) / 1e9:,.1f} GFLOP at the product's {rate / 1e12:.2f} TFLOP/s"
    )
    target = f"; ours/floor is to be at most {TARGETS[manifest['program']]}" if manifest["program"] in TARGETS else ""
    print(f"  {', '.join(f'{name}: {ratio:.2f}' for name, ratio in ratios.items())}{target}", flush=True)
    return {
        "ms": ms,
        "dispatch_ms": dispatch_ms,
        "bytes_per_s": bandwidth,
        "flops_per_s": rate,
        "flops": flops,
        "floor_ms": floor_ms,
        "ratios": ratios,
    }


# ----------------------------------------------------------------------------------------------- command


def _export(given):
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    try:
        import tensorflow  # noqa: F401
    except ImportError as error:
        sys.exit(f"error: export needs TensorFlow ({error}). Its CPU wheel is enough: pip install tensorflow-cpu")
    import gpu_programs

    if given.model and not given.program:
        sys.exit(f"error: --model={given.model}: name its program, --program: {', '.join(PROGRAMS)}.")
    for program in [given.program] if given.program else PROGRAMS:
        try:
            gpu_programs.export(program, given.model or gpu_programs.MODELS[program], given.out, given.unchecked)
        except ValueError as error:
            sys.exit(f"error: {error}")


def _main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    exporting = commands.add_parser("export", help="write the programs as StableHLO; needs TensorFlow")
    exporting.add_argument("--out", required=True, metavar="DIR", help="folder to write to")
    exporting.add_argument("--program", choices=PROGRAMS, help="one of them; all by default")
    exporting.add_argument("--model", help="of variables.py; of step an experiment with its overrides")
    exporting.add_argument(
        "--unchecked", action="store_true", help="without the step on the CPU, where memory or time do not reach"
    )
    running = commands.add_parser("run", help="time them; needs JAX and optax")
    running.add_argument("--dir", required=True, help="folder that export wrote")
    running.add_argument("--device", choices=tuple(SIZES), default="gpu", help="cpu to try it without a GPU")
    running.add_argument("--repeats", type=_positive, default=20, help="timed rounds, after one to warm up (20)")
    running.add_argument("--updates", type=_positive, default=10, help="steps in a row in one timing (10)")
    running.add_argument("--results", metavar="FILE", help="write all numbers there, as JSON")
    given = parser.parse_args()
    if given.command == "export":
        _export(given)
    else:
        run(given.dir, given.device, given.repeats, given.updates, given.results)


def _positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected 1 or more")
    return number


if __name__ == "__main__":
    _main()
