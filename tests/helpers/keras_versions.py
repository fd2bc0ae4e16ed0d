"""Keras 2 and Keras 3, for tests of both: `KERAS[name]` is Keras itself, `OPTIMIZERS[name]` our optimizers for it."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfbigbatch import keras2
from tfbigbatch.optimizers import keras3

KERAS = {"tf_keras": tf_keras, "keras3": keras}
OPTIMIZERS = {"tf_keras": keras2, "keras3": keras3}
KERAS_VERSIONS = sorted(KERAS)
both_versions = pytest.mark.parametrize("keras_version", KERAS_VERSIONS)
ONE_DEVICE = tf.distribute.OneDeviceStrategy("CPU:0")


def make(keras_version, name, **arguments):
    return getattr(OPTIMIZERS[keras_version], name)(**arguments)


def variables(keras_version, values, constraint=None):
    """Variables of one Keras: dictionary of name to value, in its order."""
    if keras_version == "tf_keras":
        return [
            tf.Variable(np.asarray(value), name=name, dtype="float32", constraint=constraint)
            for name, value in values.items()
        ]
    made = [KERAS[keras_version].Variable(np.asarray(value, "float32"), name=name) for name, value in values.items()]
    for variable in made:
        variable.constraint = constraint
    return made


def applied(optimizer, gradients, variables, dtype="float32"):
    """Takes a step for each row of gradients: lists of arrays, one for each variable."""
    for row in gradients:
        optimizer.apply_gradients([(tf.constant(g, dtype), variable) for g, variable in zip(row, variables)])


def tensor_variables(optimizer):
    """The tf.Variables of an optimizer of either Keras, in the order of its `variables`."""
    return [variable.value if isinstance(variable, keras.Variable) else variable for variable in optimizer.variables]


def state_by_name(optimizer):
    """An optimizer's state as arrays, by the variables' names."""
    prefix = f"{optimizer.name}/"
    return {variable.name.removeprefix(prefix): np.array(variable) for variable in optimizer.variables}


def small_model(keras_version, units=4, head="head"):
    keras = KERAS[keras_version]
    keras.utils.set_random_seed(0)
    layers = keras.layers
    return keras.Sequential(
        [layers.Input((4,)), layers.Dense(units, activation="tanh", name="hidden"), layers.Dense(1, name=head)]
    )


def small_data(examples=128):
    random = np.random.RandomState(0)
    return random.normal(size=(examples, 4)).astype("float32"), random.normal(size=(examples, 1)).astype("float32")


def fitted(keras_version, optimizer, strategy=None, steps=20, batch_size=32, **compile_arguments):
    """A small model after `steps` batches of `fit`; `optimizer` is a function that makes it, in the scope."""
    strategy = strategy or tf.distribute.get_strategy()
    with strategy.scope():
        model = small_model(keras_version)
        # A whole model compiled by XLA is not for several CPU replicas.
        model.compile(optimizer=optimizer(), loss="mse", **{"jit_compile": False, **compile_arguments})
    x, y = small_data(batch_size * steps)
    model.fit(x, y, batch_size=batch_size, shuffle=False, verbose=0)
    return model


def assert_same_weights(actual, expected, rtol=1e-4, atol=1e-6):
    for one, other in zip(actual.get_weights(), expected.get_weights()):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)
