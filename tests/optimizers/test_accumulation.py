"""Accumulated gradients equal the whole batch's: in a training step of one's own, and by the optimizer in any fit."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import mirrored
from tests.helpers.keras_versions import (
    ONE_DEVICE,
    assert_same_weights,
    fitted,
    state_by_name,
)
from tfbigbatch.optimizers import keras3
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


def test_a_model_without_variables_is_told_to_build():
    with pytest.raises(ValueError, match="was given no variables. Build the model first"):
        accumulate_gradients(lambda batch: [], tf.zeros([4, 2]), [], 2)


def test_a_batch_that_does_not_divide_is_refused():
    with pytest.raises(ValueError, match="batch of 10 does not divide into accumulation_steps=4"):
        split_micro_batches(tf.zeros([10, 2]), 4)


# ---- `accumulation_steps` of the optimizer --------------------------------------------------------


@pytest.mark.parametrize("where", ["one", "graph", "xla", "layer_xla", "mirrored"])
def test_four_micro_batches_are_one_batch(where):
    strategy = mirrored(4) if where == "mirrored" else ONE_DEVICE
    rate = keras.optimizers.schedules.PolynomialDecay(0.1, 5, 0.01)
    # LARS without layer adaptation is SGD with momentum: unlike LAMB, it shows every error of scale.
    options = {"learning_rate": rate, "exclude_from_layer_adaptation": ["."], "global_clipnorm": 0.2, "use_ema": True}
    options |= {"ema_overwrite_frequency": 2, "jit_compile": where == "layer_xla"}
    whole = fitted("keras3", lambda: keras3.LARS(**options), ONE_DEVICE, steps=5, batch_size=64)
    parts = fitted(
        "keras3",
        lambda: keras3.LARS(accumulation_steps=4, **options),
        strategy,
        steps=20,
        batch_size=16,
        jit_compile=where == "xla",
        run_eagerly=where == "one",
    )
    assert_same_weights(parts, whole, rtol=1e-5, atol=1e-6)
    assert parts.optimizer.iterations.numpy() == whole.optimizer.iterations.numpy() == 5


def test_nothing_moves_between_updates():
    variable = tf.Variable([1.0, 2.0], name="kernel")
    optimizer = keras3.LAMB(learning_rate=0.1, accumulation_steps=3)
    for micro_batch in range(1, 7):
        before = variable.numpy()
        optimizer.apply_gradients([(tf.constant([0.1, -0.2]), variable)])
        assert np.array_equal(before, variable.numpy()) == (micro_batch % 3 != 0)
        assert int(optimizer.iterations) == micro_batch // 3
    accumulators = [value for name, value in state_by_name(optimizer).items() if "accumulator" in name]
    assert [accumulator.tolist() for accumulator in accumulators] == [[0.0, 0.0]]


def test_sparse_gradients_accumulate():
    slices = [
        tf.IndexedSlices(tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant(rows), (3, 2)) for rows in ([0, 2], [0, 0])
    ]
    ends = []
    for steps, gradients in ((2, slices), (1, [sum(map(tf.convert_to_tensor, slices)) / 2])):
        variable = tf.Variable(tf.ones([3, 2]), name="table")
        optimizer = keras3.LAMB(learning_rate=0.1, accumulation_steps=steps)
        for gradient in gradients:
            optimizer.apply_gradients([(gradient, variable)])
        ends.append(variable.numpy())
    np.testing.assert_allclose(*ends, rtol=1e-6)
