"""The wait for batches, of a slow and of a fast pipeline, and the bits of the weights with and without measuring it."""

import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import replicated
from tfbigbatch.training.input_pipelines import InputWait
from tfbigbatch.training.step import TrainingSteps


def trained(delay=0.0, wait=None, replicas=1, steps_a_call=39):
    def slept(x):
        time.sleep(delay)
        return x

    def batch(i):
        x = tf.random.stateless_normal([4, 3], tf.stack([i, i]))
        x = tf.ensure_shape(tf.numpy_function(slept, [x], tf.float32), [4, 3]) if delay else x
        return x, tf.reduce_sum(x, 1, keepdims=True)

    keras.utils.set_random_seed(1)
    strategy = replicated(replicas)
    with strategy.scope():
        network = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        network.compile(keras.optimizers.SGD(0.01), "mse", auto_scale_loss=False)
        network.optimizer.build(network.trainable_variables)
    batches = iter(strategy.distribute_datasets_from_function(lambda _: tf.data.Dataset.range(200).map(batch)))
    steps = TrainingSteps(network, strategy=strategy, input_wait=wait)
    for first in range(0, 39, steps_a_call):
        steps(batches, first, steps_a_call)
    return network.get_weights()


@pytest.mark.parametrize("steps_a_call", [1, 13])
def test_a_slow_pipeline_is_waited_for(steps_a_call):
    slow, fast = InputWait(), InputWait()
    trained(0.02, slow, steps_a_call=steps_a_call)
    trained(0.0, fast, steps_a_call=steps_a_call)
    assert 0.4 < slow.seconds < 3.0 and fast.seconds < 0.5 * slow.seconds


@pytest.mark.parametrize("replicas", [1, 2])
def test_the_weights_have_the_same_bits(replicas):
    np.testing.assert_equal(trained(wait=InputWait(), replicas=replicas), trained(replicas=replicas))
