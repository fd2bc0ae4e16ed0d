"""Private names of Keras and TensorFlow: each is there as expected, and the list of them is complete."""

import ast
import collections
import functools
import glob
import importlib
import os
import subprocess
import sys

import keras
import pytest
import tensorflow as tf
import tf_keras
from keras.src.trainers.epoch_iterator import EpochIterator
from tensorflow.python.framework import func_graph

import tfbigbatch
from tests.helpers import private_names

PACKAGE = os.path.dirname(tfbigbatch.__file__)
# Public methods of named tuples and of the operating system.
PUBLIC = {"_asdict", "_exit", "_replace"}


def keras3_model():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile()
    return model


def keras2_model():
    model = tf_keras.Sequential([tf_keras.Input((2,)), tf_keras.layers.Dense(1)])
    model.compile()
    return model


def built(optimizer, variable):
    optimizer.build([variable])
    return optimizer


def random_generator():
    generator = tf_keras.layers.Dropout(0.5)._random_generator
    generator._maybe_init()
    return generator


def collectives():
    return tf.distribute.MultiWorkerMirroredStrategy().extended


# An instance of each class.
INSTANCES = {
    "keras.optimizers.Optimizer": lambda: built(keras.optimizers.Adam(use_ema=True), keras.Variable([1.0])),
    "keras.Model": keras3_model,
    "keras.src.trainers.epoch_iterator.EpochIterator": lambda: EpochIterator(tf.zeros([2, 1])),
    "keras.KerasTensor": lambda: keras3_model().outputs[0],
    "tf_keras.optimizers.Optimizer": lambda: built(tf_keras.optimizers.Adam(use_ema=True), tf.Variable([1.0])),
    "tf_keras.optimizers.legacy.Optimizer": tf_keras.optimizers.legacy.Adam,
    "tf_keras.Model": keras2_model,
    "tf_keras.layers.Dropout": lambda: tf_keras.layers.Dropout(0.5),
    "tf_keras.src.backend.RandomGenerator": random_generator,
    "tf_keras.src.engine.keras_tensor.KerasTensor": lambda: keras2_model().output,
    "tf_keras.callbacks.Callback": tf_keras.callbacks.Callback,
    "tensorflow.Variable": lambda: tf.Variable(1.0),
    "tensorflow.data.Dataset": lambda: tf.data.Dataset.range(1),
    "tensorflow.data.Iterator": lambda: iter(tf.data.Dataset.range(1)),
    "tensorflow.random.Generator": lambda: tf.random.Generator.from_seed(1),
    "tensorflow.python.distribute.distribute_lib.StrategyExtendedV2": lambda: (
        tf.distribute.MirroredStrategy(["CPU:0"]).extended
    ),
    "tensorflow.python.distribute.collective_all_reduce_strategy.CollectiveAllReduceExtended": collectives,
    "tensorflow.python.distribute.cross_device_ops.CollectiveAllReduce": lambda: collectives()._cross_device_ops,
    "tensorflow.python.distribute.cross_device_utils.CollectiveReplicaLauncher": lambda: (
        collectives()._cross_device_ops._launchers[0]
    ),
    "tensorflow.python.eager.polymorphic_function.polymorphic_function.Function": lambda: tf.function(abs),
    "tensorflow.python.framework.func_graph.FuncGraph": lambda: func_graph.FuncGraph("graph"),
    "tensorflow.python.framework.ops.EagerTensor": lambda: tf.constant(1.0),
}


def missing(holder, names):
    return [name for name in names.split() if not hasattr(holder, name)]


def resolve(name):
    """A class by its path, of a public module (which need not be imported by that name) or a private one."""
    parts = name.split(".")
    for depth in range(len(parts) - 1, 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:depth]))
        except ModuleNotFoundError:
            continue
        for part in parts[depth:]:
            found = getattr(found, part)
        return found


@pytest.mark.parametrize("name", INSTANCES)
def test_a_class_has_them(name):
    holder = INSTANCES[name]()
    assert isinstance(holder, resolve(name))
    assert not missing(holder, private_names.CLASSES[name])


def test_hooks_that_do_nothing_have_the_mark_of_callbacks_base():
    for each in (keras, tf_keras):
        assert each.callbacks.Callback().on_train_batch_end._is_default


def test_each_class_is_looked_at():
    assert set(private_names.CLASSES) == {*INSTANCES, "keras.Variable"}


@pytest.mark.slow
def test_a_variable_on_jax_has_them():
    pytest.importorskip("jax")
    name = private_names.CLASSES["keras.Variable"]
    code = f"import keras; assert hasattr(keras.Variable([1.0]), {name!r})"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "KERAS_BACKEND": "jax"})


@pytest.mark.parametrize("name", private_names.MODULES)
def test_a_module_has_them(name):
    assert not missing(importlib.import_module(name), private_names.MODULES[name])


# ---- The list is complete ----------------------------------------------------------------------------


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


@functools.cache
def trees():
    """The package's files, parsed, without the experiments."""
    found = []
    for path in glob.glob(os.path.join(PACKAGE, "**", "*.py"), recursive=True):
        if not path.startswith(os.path.join(PACKAGE, "experiments")):
            with open(path, encoding="utf-8") as file:
                found.append(ast.parse(file.read()))
    return found


def test_what_is_imported_is_listed():
    used = collections.defaultdict(set)
    for tree in trees():
        modules = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                if node.module.startswith(("tensorflow.python", "tensorflow.compiler")) or ".src" in node.module:
                    modules |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("importlib.import_module('keras."):
                modules[node.targets[0].id] = node.value.args[0].value
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
                used[modules[node.value.id]].add(node.attr)
    assert used == {name: set(names.split()) for name, names in private_names.MODULES.items()}


def test_attributes_that_are_not_our_own_are_listed():
    read, ours, words = set(), set(), set()
    for tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                words.add(node.attr)
                if is_private(node.attr):
                    read.add(node.attr)
                if isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id == "self":
                    ours.add(node.attr)
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                ours.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                ours.add(node.id)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                words.add(node.value)
    listed = set(" ".join(private_names.CLASSES.values()).split())
    assert read - ours - listed - PUBLIC == set()
    assert listed - words - ours == set()
