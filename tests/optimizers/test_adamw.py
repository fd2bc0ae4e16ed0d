"""AdamW: the numbers of Keras' own, by fused kernels and by plain formulas."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.keras_versions import KERAS, OPTIMIZERS, both_versions, make, variables
from tfbigbatch import optimizers

START = {"kernel": np.arange(1.0, 7.0).reshape(2, 3), "bias": np.array([0.5, -0.5, 0.0])}
STEPS = 5


def gradients(step):
    random = np.random.RandomState(step)
    return [tf.constant(random.normal(size=value.shape), tf.float32) for value in START.values()]


def ends(keras_version, optimizer):
    weights = variables(keras_version, START)
    for step in range(STEPS):
        optimizer.apply_gradients(zip(gradients(step), weights))
    return [np.asarray(weight) for weight in weights]


def schedule(keras_version):
    return KERAS[keras_version].optimizers.schedules.PolynomialDecay(0.1, STEPS, 0.01)


OPTIONS = [
    {},
    {"weight_decay": 0.1, "beta_1": 0.8, "beta_2": 0.99, "epsilon": 1e-3},
    {"weight_decay": 0.0, "global_clipnorm": 0.5},
    {"amsgrad": True, "clipvalue": 0.3},
]


@both_versions
@pytest.mark.parametrize("options", OPTIONS, ids=["defaults", "hyperparameters", "no decay", "amsgrad"])
@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_it_has_the_numbers_of_keras(keras_version, options, jit_compile):
    """Of Keras' AdamW with a changing learning rate, by fused kernels and by plain formulas."""
    theirs = KERAS[keras_version].optimizers.AdamW(schedule(keras_version), **options)
    ours = make(keras_version, "AdamW", learning_rate=schedule(keras_version), jit_compile=jit_compile, **options)
    for one, other in zip(ends(keras_version, ours), ends(keras_version, theirs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_it_has_the_numbers_of_numpy():
    """Loshchilov and Hutter's Algorithm 2 in float64, epsilon as Keras places it."""
    rate, decay, beta_1, beta_2, epsilon = 0.1, 0.2, 0.7, 0.9, 0.01
    weight, m, v = START["kernel"].copy(), np.zeros((2, 3)), np.zeros((2, 3))
    for step in range(1, STEPS + 1):
        gradient = gradients(step - 1)[0].numpy().astype("float64")
        m, v = beta_1 * m + (1 - beta_1) * gradient, beta_2 * v + (1 - beta_2) * gradient**2
        weight -= rate * decay * weight
        weight -= rate * np.sqrt(1 - beta_2**step) / (1 - beta_1**step) * m / (np.sqrt(v) + epsilon)
    options = {"weight_decay": decay, "beta_1": beta_1, "beta_2": beta_2, "epsilon": epsilon}
    ours = make("tf_keras", "AdamW", learning_rate=rate, layer_statistics=True, **options)
    np.testing.assert_allclose(ends("tf_keras", ours)[0], weight, rtol=1e-5)
    assert ours.layer_statistics()["kernel"].trust_ratio == 1.0


@both_versions
def test_the_registered_name_is_keras_own_unless_it_is_sharded(keras_version):
    get = lambda **options: optimizers.get("adamw", keras=keras_version, **options)
    assert type(get()) is type(get(shard_updates=False)) is KERAS[keras_version].optimizers.AdamW
    sharded = get(shard_updates=True, exclude_from_weight_decay=["bias"], weight_decay=0.3)
    assert type(sharded) is OPTIMIZERS[keras_version].AdamW
    assert sharded.get_config()["shard_updates"] is True and sharded.weight_decay == 0.3
    with pytest.raises(ValueError, match="shard_updates='yes'"):
        get(shard_updates="yes")
