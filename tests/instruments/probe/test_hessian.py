"""Hessian-vector products of models with loops, against differences of gradients."""

import numpy as np
import pytest

from tests.helpers.keras_versions import KERAS, KERAS_VERSIONS
from tfbigbatch.instruments.probe.hessian import ProbeHessian
from tfbigbatch.instruments.probe.micro_batches import micro_batches_of


def recurrent(keras_version):
    """A tanh-LSTM over four steps, trained for one."""
    keras = KERAS[keras_version]
    keras.utils.set_random_seed(0)
    random = np.random.RandomState(0)
    x = random.normal(size=(8, 4, 2)).astype("float32")
    model = keras.Sequential([keras.layers.Input((4, 2)), keras.layers.LSTM(3), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    y = x.sum(axis=(1, 2))[:, None]
    model.fit(x, y, batch_size=8, verbose=0)
    return model, (x, y)


@pytest.mark.slow  # The second derivative of a loop takes seconds to trace.
@pytest.mark.parametrize("keras_version", KERAS_VERSIONS)
def test_the_products_of_an_lstm_are_differences_of_its_gradients(keras_version):
    model, probe = recurrent(keras_version)
    hessian = ProbeHessian(model, micro_batches_of(probe, 2), training=False)
    vector = np.random.RandomState(1).normal(size=hessian.size).astype("float32")
    vector /= np.linalg.norm(vector)
    product = hessian.product(vector)

    weights = model.get_weights()
    parts = np.split(vector, np.cumsum([array.size for array in weights])[:-1])
    gradients = []
    for step in (0.01, -0.01):
        model.set_weights([array + step * part.reshape(array.shape) for array, part in zip(weights, parts)])
        gradients.append(hessian.gradient()[1])
    difference = (gradients[0] - gradients[1]) / 0.02
    assert np.linalg.norm(product - difference) < 0.01 * np.linalg.norm(difference)
