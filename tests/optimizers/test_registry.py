"""One table test over every registered optimizer; an optimizer left out of the registry fails."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.conftest import mirrored
from tfbigbatch import optimizers
from tfbigbatch.optimizers import tf_keras as face

ARGUMENTS = {
    "adamw": dict(learning_rate=0.05),
    "lamb": dict(learning_rate=0.05),
    "lars": dict(learning_rate=2.0, eeta=0.02),
    "momentum": dict(learning_rate=0.05, momentum=0.9, nesterov=True),
}


def test_every_optimizer_of_the_face_is_registered():
    ours = {
        cls
        for cls in vars(face).values()
        if isinstance(cls, type) and issubclass(cls, face.LayerwiseOptimizer) and cls is not face.LayerwiseOptimizer
    }
    assert ours <= {type(optimizers.get(name, **ARGUMENTS[name])) for name in optimizers.names()}


@pytest.mark.parametrize("name", optimizers.names())
def test_a_quadratic_is_minimised(name):
    target = tf.constant([3.0, -1.0, 2.0])
    variable = tf.Variable([1.0, 1.0, 1.0], name="kernel")
    rate = tf_keras.optimizers.schedules.PolynomialDecay(ARGUMENTS[name]["learning_rate"], 200, 0.0)
    optimizer = optimizers.get(name, **{**ARGUMENTS[name], "learning_rate": rate})
    for _ in range(200):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(variable - target))
        optimizer.minimize(loss, [variable], tape)
    np.testing.assert_allclose(variable.numpy(), target.numpy(), atol=0.1)


def trained(name, strategy, jit_compile=False):
    """The weights of a small model after ten clipped updates."""
    random = np.random.RandomState(0)
    x, y = random.normal(size=(64, 4)).astype("float32"), random.normal(size=(64, 1)).astype("float32")
    tf_keras.utils.set_random_seed(0)
    with strategy.scope():
        model = tf_keras.Sequential([tf_keras.layers.Dense(4, input_shape=(4,)), tf_keras.layers.Dense(1)])
        optimizer = optimizers.get(name, **ARGUMENTS[name], global_clipnorm=0.5)
        model.compile(optimizer, "mse", jit_compile=jit_compile)
    model.fit(x, y, batch_size=32, epochs=5, shuffle=False, verbose=0)
    return model.get_weights()


@pytest.mark.parametrize("name", optimizers.names())
def test_replicas_and_xla_do_not_change_the_weights(name):
    one_device = tf.distribute.OneDeviceStrategy("CPU:0")
    one = trained(name, one_device)
    for other in (trained(name, one_device, jit_compile=True), trained(name, mirrored(2)), trained(name, mirrored(4))):
        for a, b in zip(one, other):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_unknown_names_are_told_the_nearest():
    with pytest.raises(ValueError, match="'lam' is unknown. Did you mean 'lamb'"):
        optimizers.get("lam")
    with pytest.raises(ValueError, match="no argument 'wieght_decay'. Did you mean 'weight_decay'"):
        optimizers.get("lamb", wieght_decay=0.1)
