"""Weights after twenty steps of every option of the optimizers, recorded; a change of the code may not change them.

    python -m tests.recorded.optimizers [SETTING ...]            # compares, and says what differs by how much
    python -m tests.recorded.optimizers --write [SETTING ...]    # replaces the recorded weights

On one device the weights are the recorded ones bit for bit, on the processor that recorded them; on replicas, where
sums are of any order, to rounding.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys

import numpy as np

FOLDER = os.path.dirname(os.path.abspath(__file__))
# (Keras, replicas) by setting; each has a process of its own, since a Keras has one backend.
SETTINGS = {
    "keras2": ("tf_keras", 1),
    "keras2_replicas": ("tf_keras", 2),
    "keras3": ("keras3", 1),
    "keras3_replicas": ("keras3", 2),
    "jax": ("keras3", 1),
}
STEPS = 20
SHAPES = {
    "embedding/embeddings": (10, 4),
    "conv/kernel": (3, 3, 2, 4),
    "normalization/gamma": (4,),
    "lstm/kernel": (4, 16),
    "lstm/recurrent_kernel": (4, 16),
    "lstm/bias": (16,),
    "attention/kernel": (4, 2, 3),
    "hidden/kernel": (6, 8),
    "hidden/bias": (8,),
}

_SHARED = {
    "default": {},
    "decay": {"weight_decay": 0.05},
    "decay everywhere": {"weight_decay": 0.05, "exclude_from_weight_decay": []},
    "decay by pattern": {"weight_decay": 0.05, "exclude_from_weight_decay": ["hidden", "gamma"]},
    "accumulated": {"accumulation_steps": 2, "global_clipnorm": 0.5},
    "accumulated by a schedule": {"accumulation_steps": ((1, 4), (2, 3))},
    "clipnorm": {"clipnorm": 0.5},
    "clipvalue": {"clipvalue": 0.3},
    "global_clipnorm": {"global_clipnorm": 1.0},
    "averaged": {"use_ema": True, "ema_momentum": 0.5, "ema_overwrite_frequency": 3},
    "statistics": {"layer_statistics": True},
    "xla": {"jit_compile": True},
}
_ADAPTED = {
    "adapted everywhere": {"weight_decay": 0.05, "exclude_from_layer_adaptation": []},
    "adapted by pattern": {"weight_decay": 0.05, "exclude_from_layer_adaptation": ["embedding"]},
}
_MATRICES = {
    "treatments": {"treatments": (("attention", "heads"), ("lstm", "gates"), ("hidden", "vector"))},
    "treatments of groups": {"treatments": {"attention": "rows:1", "conv": "depthwise", "hidden": "groups:2"}},
    "treatments of axes": {"treatments": {"conv": "in:0,1,2 out:3", "attention": "in:0 out:1,2"}},
    "rate of vectors": {"vectors": {"learning_rate_ratio": 0.3}},
}
OPTIONS = {
    "LAMB": {
        **_SHARED,
        **_ADAPTED,
        "moments": {"beta_1": 0.8, "beta_2": 0.95, "epsilon": 1e-3},
        "no correction": {"bias_correction": False},
        "bounds": {"trust_ratio_bounds": (0.2, 2.0)},
        "normalized": {"pre_normalize": True},
    },
    "LARS": {
        **_SHARED,
        **_ADAPTED,
        "momentum": {"momentum": 0.5, "eeta": 0.01, "epsilon": 1e-3},
        "nesterov": {"nesterov": True},
        "tfm": {"form": "tfm", "weight_decay": 0.05},
        "tfm nesterov": {"form": "tfm", "nesterov": True},
    },
    "AdamW": {
        **_SHARED,
        "moments": {"beta_1": 0.8, "beta_2": 0.95, "epsilon": 1e-3},
        "amsgrad": {"amsgrad": True},
    },
    "Muon": {
        **_SHARED,
        **_ADAPTED,
        **_MATRICES,
        "momentum": {"momentum": 0.5, "nesterov": False},
        "steps": {"newton_schulz": {"steps": 3}},
        "polar express": {"newton_schulz": {"coefficients": "polar_express"}},
        "spectral": {"scale": "spectral"},
        "trust ratio": {"scale": "trust_ratio", "weight_decay": 0.05},
        "normuon": {"normuon_beta": 0.9},
        "lamb": {"vectors": "lamb", "weight_decay": 0.05},
        "moments": {"vectors": {"beta_1": 0.8, "beta_2": 0.95, "epsilon": 1e-3}},
        "bfloat16": {"newton_schulz": {"product_dtype": "bfloat16"}},
    },
    "Shampoo": {
        **_SHARED,
        **_ADAPTED,
        **_MATRICES,
        **{f"graft {graft}": {"graft": graft, "weight_decay": 0.05} for graft in ("rmsprop", "lars", "lamb")},
        "blocks": {"block_size": 3},
        "exponent": {"root": {"exponent": 2}},
        "newton": {"root": {"method": "newton"}},
        "eigh": {"root": {"method": "eigh"}},
        "rarely": {"root": {"every": 3}},
        "no graft steps": {"graft": {"steps": 0}},
        "adam": {"vectors": "adam"},
    },
}
# With two replicas or more: what these exchange, and who does which part of the work.
_REPLICATED = {
    **{
        f"{name}: sharded": (name, {"shard_updates": True, "weight_decay": 0.05, "global_clipnorm": 1.0})
        for name in OPTIONS
    },
    "Shampoo: shared": ("Shampoo", {"root": {"every": 2}}),
}
_WRAPPED = {
    "Adasum": ("adasum", {}),
    "Adasum of gradients": ("adasum", {"combine": "gradients"}),
    "LocalSteps": ("local_steps", {"every": 3}),
    "LocalSteps by momentum": (
        "local_steps",
        {"every": 4, "outer": "nesterov", "outer_learning_rate": 0.7, "outer_momentum": 0.9},
    ),
    "LocalSteps by adasum": ("local_steps", {"every": 4, "outer": "adasum"}),
    "LocalSteps delayed": ("local_steps", {"every": 4, "delay": 1}),
    "LocalSteps later": ("local_steps", {"every": 4, "data_parallel_steps": 8}),
}


def cases(setting: str) -> dict[str, tuple[str, dict, tuple[str, dict] | None]]:
    """(optimizer, its arguments, the wrapper and its arguments) by name of the case."""
    found = {f"{name}: {option}": (name, each, None) for name in OPTIONS for option, each in OPTIONS[name].items()}
    if setting == "jax":
        return {name: case for name, case in found.items() if not {"layer_statistics", "jit_compile"} & set(case[1])}
    if SETTINGS[setting][1] > 1:
        # XLA compiles each for seconds, to the same.
        found = {name: case for name, case in found.items() if "jit_compile" not in case[1]}
        found |= {name: (*case, None) for name, case in _REPLICATED.items()}
        found |= {name: ("LAMB", {"weight_decay": 0.05}, wrapper) for name, wrapper in _WRAPPED.items()}
    return found


def weights_after(setting: str, case: tuple[str, dict, tuple[str, dict] | None]) -> np.ndarray:
    """All weights in one float32 vector after STEPS micro-batches, at a learning rate that changes."""
    from tfbigbatch.optimizers.rule import AccumulationSchedule

    name, arguments, wrapper = case
    keras_name, replicas = SETTINGS[setting]
    arguments = dict(arguments)
    if isinstance(arguments.get("accumulation_steps"), tuple):
        arguments["accumulation_steps"] = AccumulationSchedule(*arguments["accumulation_steps"])
    if keras_name == "tf_keras":
        import tf_keras as keras

        from tfbigbatch import keras2 as ours
    else:
        import keras

        from tfbigbatch.optimizers import keras3 as ours
    rate = keras.optimizers.schedules.PolynomialDecay(0.05, STEPS, 0.005)

    def made():
        optimizer = getattr(ours, name)(rate, **arguments)
        wrappers = {"adasum": ours.Adasum, "local_steps": ours.LocalSteps}
        return wrappers[wrapper[0]](optimizer, **wrapper[1]) if wrapper else optimizer

    random = np.random.default_rng(0)
    first = {path: random.standard_normal(shape, np.float32) / 4 for path, shape in SHAPES.items()}
    gradients = [random.standard_normal((STEPS, *shape), np.float32) for shape in SHAPES.values()]
    if setting == "jax":
        return _on_jax(made(), first, gradients)
    return _on_tensorflow(made, keras_name, replicas, first, gradients)


def _variables(keras_name, values):
    if keras_name == "tf_keras":
        import tensorflow as tf

        return [tf.Variable(value, name=path) for path, value in values.items()]
    import keras

    made = []
    for path, value in values.items():
        layer, name = path.split("/")
        with keras.name_scope(layer):
            made.append(keras.Variable(value, name=name))
    return made


def _on_jax(optimizer, first, gradients):
    import jax

    variables = _variables("keras3", first)
    optimizer.build(variables)
    values, state = ([each.value for each in group] for group in (variables, optimizer.variables))
    step = jax.jit(optimizer.stateless_apply)
    for number in range(STEPS):
        values, state = step(state, [each[number] for each in gradients], values)
    return _joined(values)


def _on_tensorflow(made, keras_name, replicas, first, gradients):
    import tensorflow as tf

    strategy = _mirrored(replicas) if replicas > 1 else tf.distribute.get_strategy()
    with strategy.scope():
        variables = _variables(keras_name, first)
        optimizer = made()
        optimizer.build(variables)
    constants = [tf.constant(each) for each in gradients]

    @tf.function
    def step(number):
        def replica():
            index = tf.distribute.get_replica_context().replica_id_in_sync_group
            # They add up to the gradient, and point elsewhere on each replica.
            aside = (tf.cast(index, tf.float32) - (replicas - 1) / 2) / replicas
            parts = [each[number] / replicas + aside * each[STEPS - 1 - number] for each in constants]
            optimizer.apply_gradients(zip(parts, variables))

        strategy.run(replica)

    for number in range(STEPS):
        step(tf.constant(number))
    return _joined([each.numpy() for each in variables])


@functools.cache
def _mirrored(replicas):
    """One for all cases: collectives of several strategies in a process take each other's keys."""
    import tensorflow as tf

    return tf.distribute.MirroredStrategy([f"CPU:{index}" for index in range(replicas)])


def _joined(values):
    return np.concatenate([np.asarray(value, np.float32).ravel() for value in values])


def recorded(setting: str) -> dict[str, np.ndarray]:
    """The recorded weights by name of the case."""
    with np.load(_path(setting)) as file:
        return dict(file)


def _path(setting):
    return os.path.join(FOLDER, f"optimizers_{setting}.npz")


def run(setting: str, write: bool) -> int:
    """Records or compares one setting; the number of cases that differ by more than they may."""
    if setting != "jax":
        import tensorflow as tf

        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    found = {name: weights_after(setting, case) for name, case in cases(setting).items()}
    if write:
        np.savez_compressed(_path(setting), **found)
        return 0
    wrong, before = 0, recorded(setting)
    for name in sorted({*found, *before}):
        if name not in found or name not in before:
            print(f"{setting}, {name}: only {'found' if name in found else 'recorded'}")
            wrong += 1
        elif not np.array_equal(found[name], before[name]):
            error = float(np.abs(found[name] - before[name]).max())
            bad = SETTINGS[setting][1] == 1 or not error < 1e-5
            print(f"{setting}, {name}: differs by {error:.1e}" + ("" if bad else ", rounding"))
            wrong += bad
    print(f"{setting}: {len(found)} cases, {wrong} wrong", flush=True)
    return wrong


def main() -> int:
    """Each setting in a process of its own."""
    given = sys.argv[1:]
    write, only = "--write" in given, [each for each in given if each in SETTINGS]
    if "--here" in given:
        return min(1, run(only[0], write))
    failed = 0
    for setting in only or SETTINGS:
        backend = "jax" if setting == "jax" else "tensorflow"
        command = [sys.executable, "-m", "tests.recorded.optimizers", "--here", setting, *["--write"] * write]
        environment = {**os.environ, "KERAS_BACKEND": backend, "TF_DETERMINISTIC_OPS": "1"}
        failed |= subprocess.run(command, env=environment).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
