"""The wait for batches, of a slow and of a fast pipeline, and the bits of the weights with and without measuring it."""

import time

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.conftest import mirrored
from tfbigbatch.training.input_pipelines import InputWait
from tfbigbatch.training.train_step import TrainingModel


def fitted(delay=0.0, wait=None, strategy=None, steps_per_execution=1):
    strategy = strategy or tf.distribute.get_strategy()

    def slept(x):
        time.sleep(delay)
        return x

    def batch(i):
        x = tf.random.stateless_normal([4, 3], tf.stack([i, i]))
        x = tf.ensure_shape(tf.numpy_function(slept, [x], tf.float32), [4, 3]) if delay else x
        return x, tf.reduce_sum(x, 1, keepdims=True)

    with strategy.scope():
        tf_keras.utils.set_random_seed(1)
        network = tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(3,))])
        model = TrainingModel(network)
        model.input_wait = wait
        model.compile(tf_keras.optimizers.SGD(0.01), "mse", steps_per_execution=steps_per_execution)
    batches = strategy.distribute_datasets_from_function(lambda context: tf.data.Dataset.range(200).map(batch))
    model.fit(batches, epochs=1, steps_per_epoch=39, verbose=0)
    return network.get_weights()


@pytest.mark.parametrize("steps_per_execution", [1, 10])
def test_a_slow_pipeline_is_waited_for(steps_per_execution):
    slow, fast = InputWait(), InputWait()
    fitted(0.02, slow, steps_per_execution=steps_per_execution)
    fitted(0.0, fast, steps_per_execution=steps_per_execution)
    assert 0.6 < slow.seconds < 3.0 and fast.seconds < 0.5 * slow.seconds


@pytest.mark.parametrize("replicas", [1, 2])
def test_the_weights_have_the_same_bits(replicas):
    strategies = [mirrored(2) if replicas == 2 else None for _ in range(2)]
    measured = fitted(wait=InputWait(), strategy=strategies[0])
    np.testing.assert_equal(measured, fitted(strategy=strategies[1]))
