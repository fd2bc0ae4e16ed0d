"""Accumulated gradients equal those of the whole batch."""

import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.optimizers.accumulation import accumulate_gradients, split_micro_batches


@pytest.mark.parametrize("accumulation_steps", [1, 2, 4, 8])
@pytest.mark.parametrize("in_graph", [True, False])
def test_the_mean_gradient_is_that_of_the_whole_batch(accumulation_steps, in_graph):
    random = np.random.RandomState(0)
    x, y = tf.constant(random.normal(size=(16, 5)), tf.float32), tf.constant(random.normal(size=(16,)), tf.float32)
    weight, unused = tf.Variable(random.normal(size=5), dtype=tf.float32), tf.Variable([1.0])

    def gradients_of(batch):
        features, labels = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.linalg.matvec(features, weight) - labels))
        return tape.gradient(loss, [weight, unused])

    def accumulated():
        return accumulate_gradients(gradients_of, (x, y), [weight, unused], accumulation_steps)

    actual = (tf.function(accumulated) if in_graph else accumulated)()
    np.testing.assert_allclose(actual[0], gradients_of((x, y))[0], rtol=1e-5)
    np.testing.assert_array_equal(actual[1], [0.0])


def test_a_batch_that_does_not_divide_is_refused():
    with pytest.raises(ValueError, match="batch of 10 does not divide into accumulation_steps=4"):
        split_micro_batches(tf.zeros([10, 2]), 4)
