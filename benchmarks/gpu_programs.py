"""LAMB's and Muon's updates and a whole training step as StableHLO for GPUs, written on a machine without one.

Each is a pure function from inputs and state to results and the new state: the variables of TensorFlow's function, as
arguments and results (`tfbigbatch.tpu.functionalize`). gpu.py runs the files.
"""

import json
import os

import gpu
import numpy as np
import tensorflow as tf
import variables
from tensorflow.compiler.mlir.stablehlo import stablehlo

from tfbigbatch import experiment
from tfbigbatch.errors import InputError, nearest
from tfbigbatch.optimizers import rules
from tfbigbatch.tpu import functionalize
from tfbigbatch.tpu import step as tpu_step
from tfbigbatch.tpu.strategy import AheadOfTimeStrategy

# LAMB cannot touch less, in float32: one pass reads gradient, weight and both slots and writes the slots; the
# update's norm being known only then, a second reads weight and slots again and writes the weight.
LAMB_BYTES = 40
# Muon's matrices: gradient, weight and momentum are read, weight and momentum written. Its other variables, which take
# Adam's step, have a slot more each way.
MUON_BYTES, ADAM_BYTES = 20, 28
# What the integers of a batch are below, by name; those of a fine-tuning or translation task are not here.
_BELOW = {"input_word_ids": 1_000, "input_type_ids": 2, "masked_lm_positions": 32, "masked_lm": 1_000}
_BELOW |= {"next_sentence": 2, "images": 256, "labels": 10}
MODELS = {"lamb": "bert_large", "muon": "bert_base", "step": "bert/tiny"}


def export(program, model, out, unchecked=False):
    """Writes a program of a model, and the manifest that says what it takes, returns and has to move.

    Args:
      program: a key of MODELS.
      model: of `variables.models()`; for 'step' the name of an experiment, and its overrides, between spaces.
      out: folder.
      unchecked: whether to leave out the step on the CPU that `run` compares with.

    Raises:
      ValueError: the model is unknown.
    """
    function, specs, manifest = {"lamb": _lamb, "muon": _muon, "step": _step}[program](model)
    compiled = tf.function(function, jit_compile=True, autograph=False)
    module = compiled.experimental_get_compiler_ir(*specs)(stage="stablehlo_serialized", platform_name="GPU")
    # A portable artifact of the oldest version there is: any JAX reads it, whichever StableHLO it was built with.
    version = stablehlo.get_minimum_version()
    module = stablehlo.serialize_portable_artifact_str(module, version)
    manifest |= {"program": program, "model": model}
    manifest |= {"versions": {"tensorflow": tf.__version__, "stablehlo": version}}
    if program != "lamb" and not unchecked:
        manifest |= _expected(compiled, manifest)
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, f"{program}.stablehlo"), "wb") as file:
        file.write(module)
    with open(os.path.join(out, f"{program}.json"), "w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1)
    print(f"{program} of {model}: {manifest['parameters']:,} parameters, {len(module) / 2**20:.1f} MiB in {out}")


def _shapes(model):
    if model not in variables.models():
        raise InputError(f"--model={model}: unknown. {nearest(model, variables.models())}")
    return variables.shapes(model)


def _described(spec, kind):
    return [list(spec.shape), spec.dtype.name, kind]


def _lamb(model):
    names, shapes = zip(*_shapes(model))
    count = len(shapes)

    def update(*arguments):
        gradients, weights, m, v = (arguments[first : first + count] for first in range(0, 4 * count, count))
        step = arguments[-1] + 1.0
        # Without what it returns after weight, m and v.
        rows = [
            rules.lamb(*row, learning_rate=gpu.LEARNING_RATE, step=step, **gpu.LAMB)[:3]
            for row in zip(gradients, weights, m, v)
        ]
        return [*(tensor for column in zip(*rows) for tensor in column), step]

    specs = [tf.TensorSpec(shape) for shape in shapes]
    manifest = {
        "parameters": sum(spec.shape.num_elements() for spec in specs),
        "inputs": [_described(spec, "normal") for spec in specs],
        # Vectors start at zero, as biases do, so that the rule for zero norms is checked too.
        "state": [
            *([name, *_described(spec, "weight" if spec.shape.rank > 1 else 0)] for name, spec in zip(names, specs)),
            *([f"{slot}/{name}", *_described(spec, 0)] for slot in "mv" for name, spec in zip(names, specs)),
            ["step", [], "float32", 0],
        ],
        "results": [],
    }
    return (
        update,
        [*4 * specs, tf.TensorSpec([])],
        manifest | {"bytes": LAMB_BYTES * manifest["parameters"], "flops": 0},
    )


def _muon(model):
    import tf_keras

    from tfbigbatch.optimizers import keras2

    strategy = AheadOfTimeStrategy(1)
    tf_keras.backend.clear_session()
    with strategy.scope():
        weights = [tf.Variable(tf.zeros(shape), name=name) for name, shape in _shapes(model)]
        optimizer = keras2.Muon(gpu.LEARNING_RATE, weight_decay=0.01)
        optimizer.build(weights)

    def apply(*gradients):
        optimizer.apply_gradients(zip(gradients, weights))

    traced = tf.function(lambda *gradients: strategy.run(apply, gradients), jit_compile=True, autograph=False)
    specs = [tf.TensorSpec(weight.shape) for weight in weights]
    pure = functionalize.functionalize(traced.get_concrete_function(*specs))
    shapes = [tuple(weight.shape) for weight in weights]
    rule = optimizer.updater.rule
    views = rule.views([weight.name.split(":")[0] for weight in weights], shapes)
    sizes = [weight.shape.num_elements() for weight in weights]
    moved = sum(size * (ADAM_BYTES if view is None else MUON_BYTES) for size, view in zip(sizes, views))
    manifest = {
        "parameters": sum(sizes),
        "inputs": [_described(spec, "normal") for spec in specs],
        "state": _state(pure.variables, weights),
        "results": [],
        "bytes": moved,
        "flops": sum(rule.matrix_flops(view) for view in views if view is not None),
        "products": "float32",
    }
    return pure.function, pure.specs, manifest


def _step(model):
    name, *overrides = model.split()
    config = experiment.load(name)
    experiment.override(config, overrides)
    traced = tpu_step.trace(config, 1)
    pure = functionalize.functionalize(traced.function)
    specs = tf.nest.flatten(traced.inputs)
    outputs = tf.function(pure.function, jit_compile=True, autograph=False).get_concrete_function(*pure.specs).outputs
    manifest = {
        "parameters": traced.weights,
        "batch_size": traced.batch_size,
        "inputs": [_described(spec, kind) for spec, kind in zip(specs, _kinds(traced.inputs))],
        "state": _state(pure.variables, traced.model.trainable_variables),
        "results": [[list(each.shape), each.dtype.name] for each in outputs[: len(outputs) - len(pure.variables)]],
        # Its operations are counted where it runs; what it must move depends on what is kept for the way back.
        "bytes": 0,
        "flops": None,
        "products": config.mixed_precision,
    }
    return pure.function, pure.specs, manifest


def _kinds(inputs):
    """The kind of each tensor of a batch (inputs, labels, weights), in the order of tf.nest."""
    kinds = []
    for part, name in zip(inputs, ("images", "labels", "weights")):
        leaves = part if isinstance(part, dict) else {name: part}
        for leaf, spec in sorted(leaves.items()):
            # Weights and masks are ones.
            kinds.append({"below": _BELOW[leaf]} if spec.dtype.is_integer and leaf in _BELOW else 1)
    return kinds


def _state(state, weights):
    """The name, shape, dtype and first value of each variable; those of `weights` are what is trained."""
    trained = {functionalize.tensor_id(weight.handle) for weight in weights}
    described = []
    for variable in state:
        name, spec = variable.name.split(":")[0], tf.TensorSpec(variable.shape, variable.dtype)
        if name.endswith(("gamma", "moving_variance")) and not name.startswith(("m/", "v/", "momentum/")):
            kind = 1
        elif functionalize.tensor_id(variable.handle) in trained:
            kind = "weight" if spec.shape.rank > 1 else 0
        else:
            # The learning rate is one of them.
            kind = float(variable.numpy()) if spec.shape.rank == 0 else 0
        described.append([name, *_described(spec, kind)])
    return described


def _expected(compiled, manifest):
    """What one step gives on this machine's CPU, by XLA: the results, and how far each variable moved."""
    inputs, state = gpu.made(manifest["inputs"]), gpu.made(each[1:] for each in manifest["state"])
    outputs = [each.numpy() for each in compiled(*inputs, *state)]
    results = len(manifest["results"])
    return {
        "expected": {
            "results": [np.asarray(each, np.float64).ravel().tolist() for each in outputs[:results]],
            "moved": gpu.moved(state, outputs[results:]),
        }
    }
