"""Keras' LSTM, traced for the devices that there are."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfbigbatch.models import recurrent


def traced(make_layer, dtype="float32"):
    """The outputs, states and gradients of a step that is a graph."""
    tf_keras.utils.set_random_seed(1)
    layer = make_layer(7, return_sequences=True, return_state=True, dtype=dtype, name="lstm")
    random = np.random.RandomState(0)
    inputs, states = random.randn(4, 5, 3).astype("float32"), [random.randn(4, 7).astype("float32") for _ in range(2)]

    @tf.function
    def step(inputs, states):
        with tf.GradientTape() as tape:
            outputs = layer(inputs, initial_state=[tf.cast(each, layer.compute_dtype) for each in states])
            loss = sum(tf.reduce_sum(tf.cast(each, tf.float32) ** 2) for each in outputs)
        return outputs, tape.gradient(loss, layer.trainable_variables)

    results = tf.nest.flatten(step(inputs, states))
    return layer, [tf.cast(each, tf.float32).numpy() for each in results]


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_the_lstm_has_the_bits_of_keras_own(dtype):
    layer, found = traced(recurrent.lstm, dtype)
    keras_layer, expected = traced(tf_keras.layers.LSTM, dtype)
    assert type(layer) is type(keras_layer) and layer.get_config() == keras_layer.get_config()
    assert [each.name for each in layer.weights] == [each.name for each in keras_layer.weights]
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_with_a_gpu_it_is_left_as_it_is(monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [kind])
    layer = recurrent.lstm(2)
    assert layer._could_use_gpu_kernel and "call" not in vars(layer)
