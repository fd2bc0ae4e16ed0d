"""Keras 3's variables that a step overwrites with their gradients, as the scales of float8 layers."""

import keras
import pytest
import tensorflow as tf

from tests.helpers.keras_versions import make, variables

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
