"""The norms of a training step's own gradients, by micro-batches and replicas."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.conftest import replicated
from tfbigbatch.instruments import StepGradients
from tfbigbatch.training.train_step import TrainingModel

FEATURES, BATCH = 3, 8


def data(steps):
    random = np.random.RandomState(2)
    x = random.normal(size=(steps * BATCH, FEATURES)).astype("float32")
    return x, random.normal(size=(steps * BATCH, 1)).astype("float32")


def trained(strategy, accumulation_steps, watch, optimizer=lambda: tf_keras.optimizers.SGD(0.1)):
    tf_keras.utils.set_random_seed(0)
    steps = 2
    x, y = data(steps)
    with strategy.scope():
        inputs = tf_keras.Input((FEATURES,))
        network = tf_keras.Model(inputs, tf_keras.layers.Dense(1, use_bias=False)(inputs))
        model = TrainingModel(network, accumulation_steps)
        if watch:
            model.step_gradients = StepGradients(1)
        model.compile(optimizer(), tf_keras.losses.MeanSquaredError())
    weights = []
    keep = tf_keras.callbacks.LambdaCallback(on_train_batch_begin=lambda *_: weights.append(model.get_weights()[0]))
    batches = strategy.distribute_datasets_from_function(
        lambda _: tf.data.Dataset.from_tensor_slices((x, y)).batch(
            BATCH // strategy.num_replicas_in_sync, drop_remainder=True
        )
    )
    model.fit(batches, steps_per_epoch=steps, verbose=0, callbacks=[keep])
    return model, weights


@pytest.mark.parametrize("replicas, accumulation_steps", [(1, 4), (2, 2), pytest.param(2, 1, marks=pytest.mark.slow)])
def test_the_norms_are_those_of_the_micro_batches_and_of_their_mean(replicas, accumulation_steps):
    strategy = replicated(replicas)
    model, weights = trained(strategy, accumulation_steps, watch=True)
    plain, _ = trained(strategy, accumulation_steps, watch=False)
    np.testing.assert_array_equal(model.get_weights()[0], plain.get_weights()[0])

    x, y = data(len(weights))
    parts = replicas * accumulation_steps
    small, large = [], []
    for step, kernel in enumerate(weights):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        gradients = 2 * (x[rows] @ kernel - y[rows]) * x[rows]
        small.append((gradients.reshape(parts, -1, FEATURES).mean(axis=1) ** 2).sum(axis=1).mean())
        large.append((gradients.mean(axis=0) ** 2).sum())
    read = model.step_gradients.read()
    np.testing.assert_allclose(read, (np.mean(small), np.mean(large), BATCH / parts, BATCH), rtol=1e-5)
    np.testing.assert_allclose(model.step_gradients.layer_norms(), [np.sqrt(large[-1])], rtol=1e-5)
    assert model.step_gradients.read() is None


@pytest.mark.slow  # Two more traces of a step.
def test_a_scaled_loss_is_scaled_back():
    strategy = replicated(1)
    model, _ = trained(
        strategy,
        2,
        watch=True,
        optimizer=lambda: tf_keras.mixed_precision.LossScaleOptimizer(
            tf_keras.optimizers.SGD(0.1), dynamic=False, initial_scale=64.0
        ),
    )
    plain, _ = trained(strategy, 2, watch=True)
    np.testing.assert_allclose(model.step_gradients.read(), plain.step_gradients.read(), rtol=1e-5)
