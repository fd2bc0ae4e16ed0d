"""AdamW: the numbers of Keras' own, by fused kernels and by plain formulas."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.keras_versions import variables
from tfbigbatch import optimizers
from tfbigbatch.optimizers import keras3

START = {"kernel": np.arange(1.0, 7.0).reshape(2, 3), "bias": np.array([0.5, -0.5, 0.0])}
STEPS = 5


def gradients(step):
    random = np.random.RandomState(step)
    return [tf.constant(random.normal(size=value.shape), tf.float32) for value in START.values()]


def ends(optimizer):
    weights = variables("keras3", START)
    for step in range(STEPS):
        optimizer.apply_gradients(zip(gradients(step), weights))
    return [np.asarray(weight) for weight in weights]


def schedule():
    return keras.optimizers.schedules.PolynomialDecay(0.1, STEPS, 0.01)


OPTIONS = [
    {},
    {"weight_decay": 0.1, "beta_1": 0.8, "beta_2": 0.99, "epsilon": 1e-3, "clipnorm": 0.5},
    {"weight_decay": 0.0, "global_clipnorm": 0.5},
    {"amsgrad": True, "clipvalue": 0.3},
]


@pytest.mark.parametrize("options", OPTIONS, ids=["defaults", "hyperparameters", "no decay", "amsgrad"])
@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_it_has_the_numbers_of_keras(options, jit_compile):
    """Of Keras' AdamW with a changing learning rate, by fused kernels and by plain formulas."""
    theirs = keras.optimizers.AdamW(schedule(), **options)
    options = {**options, "jit_compile": jit_compile, "layer_statistics": True}
    ours = keras3.AdamW(learning_rate=schedule(), **options)
    for one, other in zip(ends(ours), ends(theirs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert ours.layer_statistics()["kernel"].trust_ratio == 1.0


def test_the_registered_name_is_keras_own_unless_it_is_sharded():
    get = lambda **options: optimizers.get("adamw", keras="keras3", **options)
    assert type(get()) is type(get(shard_updates=False)) is keras.optimizers.AdamW
    sharded = get(shard_updates=True, exclude_from_weight_decay=["bias"], weight_decay=0.3)
    assert type(sharded) is keras3.AdamW
    assert sharded.get_config()["shard_updates"] is True and sharded.weight_decay == 0.3
    with pytest.raises(ValueError, match="shard_updates='yes'"):
        get(shard_updates="yes")
