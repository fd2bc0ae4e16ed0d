import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import mirrored
from tests.helpers.keras_versions import KERAS, both_versions
from tfbigbatch.instruments.probe.gradients import ProbeGradients
from tfbigbatch.instruments.probe.micro_batches import micro_batches_of

COUNT, EXAMPLES, FEATURES = 4, 3, 5


def data(examples=COUNT * EXAMPLES):
    random = np.random.RandomState(1)
    return random.normal(size=(examples, FEATURES)).astype("float32"), random.normal(size=(examples, 1)).astype(
        "float32"
    )


def regression(keras_version, *more, strategy=None):
    """A linear model of which one step is trained."""
    keras = KERAS[keras_version]
    keras.utils.set_random_seed(0)
    with (strategy or tf.distribute.get_strategy()).scope():
        layers = [keras.layers.Input((FEATURES,)), *more, keras.layers.Dense(1, use_bias=False)]
        model = keras.Sequential(layers)
        model.compile("sgd", "mse", metrics=["mae"], jit_compile=False)
    x, y = data(16)
    model.fit(x, y, batch_size=16, verbose=0)
    return model


def by_hand(weights, x, y):
    """The squared norms of the mean squared error's gradient, in float64."""
    residuals = x.astype("float64") @ weights - y
    gradients = 2 * residuals * x
    small = gradients.reshape(COUNT, EXAMPLES, -1).mean(axis=1)
    return (small**2).sum(axis=1).mean(), (gradients.mean(axis=0) ** 2).sum()


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_linear_regression_by_hand(replicas):
    model = regression("keras3", strategy=mirrored(replicas) if replicas > 1 else None)
    x, y = data()
    measured = ProbeGradients(model)(micro_batches_of((x, y), COUNT))
    np.testing.assert_allclose(measured, by_hand(model.get_weights()[0], x, y), rtol=1e-5)


def everything(model):
    """All that a look could change: weights, metrics, generators, optimizer."""
    found = list(model.variables) + [variable for metric in model.metrics for variable in metric.variables]
    optimizer = model.optimizer.variables
    found += optimizer() if callable(optimizer) else optimizer
    strategy = model.distribute_strategy
    for module in getattr(model, "submodules", ()):
        generator = getattr(getattr(module, "_random_generator", None), "_generator", None)
        if generator is not None:
            found.append(generator._state_var)
    tensors = [getattr(variable, "value", variable) if hasattr(variable, "path") else variable for variable in found]
    return [copy.numpy() for each in tensors for copy in strategy.experimental_local_results(each)]


@both_versions
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_look_leaves_no_trace(keras_version, replicas):
    keras = KERAS[keras_version]
    if keras_version == "tf_keras":
        keras.backend.experimental.enable_tf_random_generator()
    random_layers = (keras.layers.BatchNormalization(), keras.layers.Dropout(0.5))
    model = regression(keras_version, *random_layers, strategy=mirrored(replicas) if replicas > 1 else None)
    gradients, probe = ProbeGradients(model), micro_batches_of(data(), COUNT)
    before = everything(model)
    first, second = gradients(probe), gradients(probe)
    np.testing.assert_equal(everything(model), before)
    # The generators are where they were: dropout drops the same.
    assert first == second and np.isfinite(first).all()
