"""Toy models for the instruments."""

import numpy as np
import tensorflow as tf

from tests.helpers.keras_versions import KERAS

FEATURES = 4


def examples(count, seed=0):
    random = np.random.RandomState(seed)
    x = random.normal(size=(count, FEATURES)).astype("float32")
    return x, (np.sin(x.sum(axis=1, keepdims=True)) + 0.1 * random.normal(size=(count, 1))).astype("float32")


def model_of(*hidden, optimizer="sgd", strategy=None, keras_version="keras3", **compile_arguments):
    """A compiled regression; `hidden` are functions from the Keras' layers to a layer."""
    keras = KERAS[keras_version]
    keras.utils.set_random_seed(0)
    with (strategy or tf.distribute.get_strategy()).scope():
        layers = [keras.layers.Input((FEATURES,)), *(layer(keras.layers) for layer in hidden), keras.layers.Dense(1)]
        model = keras.Sequential(layers)
        made = optimizer if isinstance(optimizer, str) else optimizer()
        model.compile(made, "mse", **{"jit_compile": False, **compile_arguments})
    return model


def tanh(layers):
    return layers.Dense(3, "tanh")


def fit(model, callbacks=(), steps=4, batch_size=8, seed=5, **options):
    x, y = examples(steps * batch_size, seed)
    model.fit(x, y, batch_size=batch_size, shuffle=False, verbose=0, callbacks=list(callbacks), **options)
    return model
