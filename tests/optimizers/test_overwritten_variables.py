"""Keras 3's variables that a step overwrites with their gradients, as the scales of float8 layers."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.keras_versions import make, tensor_variables, variables

WRAPPED = {
    "LAMB": lambda inner: inner,
    "Adasum": lambda inner: make("keras3", "Adasum", optimizer=inner),
    "loss scale": lambda inner: make("keras3", "LossScaleOptimizer", inner_optimizer=inner),
}


def kernel_and_scale():
    kernel, scale = variables("keras3", {"kernel": [1.0, 2.0], "scale": [1.0]})
    scale.overwrite_with_gradient = True
    return kernel, scale


@pytest.mark.parametrize("around", WRAPPED)
def test_a_scale_is_its_gradient_and_has_no_state(around):
    kernel, scale = kernel_and_scale()
    # Adasum takes no averages of updates.
    averages = {} if around == "Adasum" else {"use_ema": True, "ema_overwrite_frequency": 2}
    optimizer = WRAPPED[around](make("keras3", "LAMB", **averages))
    optimizer.build([kernel, scale])
    of_scale = [variable for variable in optimizer.variables if variable.shape == (1,)]
    assert not of_scale
    for value in (3.0, 0.5):
        optimizer.apply_gradients([(tf.constant([0.1, 0.2]), kernel), (tf.constant([value]), scale)])
        assert scale.numpy() == [value]
    assert kernel.numpy()[0] < 1.0
    optimizer.finalize_variable_values([kernel, scale])
    assert scale.numpy() == [0.5]


def test_accumulation_overwrites_once_a_step_as_keras_own_does():
    histories = []
    for optimizer in (
        make("keras3", "LAMB", accumulation_steps=2),
        keras.optimizers.Adam(gradient_accumulation_steps=2),
    ):
        kernel, scale = kernel_and_scale()
        history = []
        for value in (3.0, 0.5, 0.25, 0.75):
            optimizer.apply_gradients([(tf.constant([0.1, 0.2]), kernel), (tf.constant([value]), scale)])
            history.append(float(scale.numpy()[0]))
        histories.append(history)
    assert histories[0] == histories[1] == [1.0, 3.0, 3.0, 0.75]


def test_a_float8_model_saves_and_loads(tmp_path):
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(8), keras.layers.Dense(1)])
    for layer in model.layers:
        layer.quantize("float8")
    model.compile(make("keras3", "LAMB", accumulation_steps=2), "mse")
    model.optimizer.build(model.trainable_variables)
    for number, variable in enumerate(tensor_variables(model.optimizer)):
        variable.assign(tf.fill(variable.shape, tf.cast(number, variable.dtype)))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for ours, theirs in zip(model.optimizer.variables, loaded.optimizer.variables, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
