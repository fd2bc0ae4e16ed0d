"""Accumulated gradients equal the whole batch's: in a training step of one's own, and by the optimizer in any fit."""

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import mirrored
from tests.helpers.keras_versions import (
    KERAS,
    ONE_DEVICE,
    assert_same_weights,
    both_versions,
    fitted,
    make,
    small_data,
    small_model,
    state_by_name,
)
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


@both_versions
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_training_step_of_either_keras_on_any_replicas(keras_version, replicas):
    """The loop and one update, in a custom training step, against one step of the whole batch."""
    keras = KERAS[keras_version]
    x, y = small_data(32)
    ends = []
    for accumulation_steps, strategy in ((1, mirrored(1)), (4, mirrored(replicas))):
        with strategy.scope():
            model = small_model(keras_version)
            optimizer = keras.optimizers.SGD(0.5)
            optimizer.build(model.trainable_variables)

        def gradients_of(batch, model=model):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(batch[0], training=True) - batch[1]))
            return tape.gradient(loss, model.trainable_weights)

        def replica(batch, model=model, optimizer=optimizer, steps=accumulation_steps, strategy=strategy):
            variables = model.trainable_variables
            gradients = accumulate_gradients(gradients_of, batch, variables, steps)
            shares = [gradient / strategy.num_replicas_in_sync for gradient in gradients]
            optimizer.apply_gradients(zip(shares, variables))

        batches = strategy.experimental_distribute_dataset(
            tf.data.Dataset.from_tensors((x, y)).unbatch().batch(32, drop_remainder=True)
        )
        step = tf.function(lambda batch, run=strategy.run, replica=replica: run(replica, args=(batch,)))
        for batch in batches:
            step(batch)
        ends.append(model)
    assert_same_weights(*ends, rtol=1e-5)


def test_a_model_without_variables_is_told_to_build():
    with pytest.raises(ValueError, match="was given no variables. Build the model first"):
        accumulate_gradients(lambda batch: [], tf.zeros([4, 2]), [], 2)


def test_a_batch_that_does_not_divide_is_refused():
    with pytest.raises(ValueError, match="batch of 10 does not divide into accumulation_steps=4"):
        split_micro_batches(tf.zeros([10, 2]), 4)


# ---- `accumulation_steps` of the optimizer --------------------------------------------------------


@both_versions
@pytest.mark.parametrize("where", ["one", "graph", "xla", "layer_xla", "mirrored"])
def test_four_micro_batches_are_one_batch(keras_version, where):
    strategy = mirrored(4) if where == "mirrored" else ONE_DEVICE
    rate = KERAS[keras_version].optimizers.schedules.PolynomialDecay(0.1, 5, 0.01)
    # LARS without layer adaptation is SGD with momentum: unlike LAMB, it shows every error of scale.
    options = {"learning_rate": rate, "exclude_from_layer_adaptation": ["."], "global_clipnorm": 0.2, "use_ema": True}
    options |= {"ema_overwrite_frequency": 2, "jit_compile": where == "layer_xla"}
    whole = fitted(keras_version, lambda: make(keras_version, "LARS", **options), ONE_DEVICE, steps=5, batch_size=64)
    parts = fitted(
        keras_version,
        lambda: make(keras_version, "LARS", accumulation_steps=4, **options),
        strategy,
        steps=20,
        batch_size=16,
        jit_compile=where == "xla",
        run_eagerly=where == "one",
    )
    assert_same_weights(parts, whole, rtol=1e-5, atol=1e-6)
    assert parts.optimizer.iterations.numpy() == whole.optimizer.iterations.numpy() == 5


@both_versions
def test_nothing_moves_between_updates(keras_version):
    variable = tf.Variable([1.0, 2.0], name="kernel")
    optimizer = make(keras_version, "LAMB", learning_rate=0.1, accumulation_steps=3)
    for micro_batch in range(1, 7):
        before = variable.numpy()
        optimizer.apply_gradients([(tf.constant([0.1, -0.2]), variable)])
        assert np.array_equal(before, variable.numpy()) == (micro_batch % 3 != 0)
        assert int(optimizer.iterations) == micro_batch // 3
    accumulators = [value for name, value in state_by_name(optimizer).items() if "accumulator" in name]
    assert [accumulator.tolist() for accumulator in accumulators] == [[0.0, 0.0]]


@both_versions
def test_sparse_gradients_accumulate(keras_version):
    slices = [
        tf.IndexedSlices(tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant(rows), (3, 2)) for rows in ([0, 2], [0, 0])
    ]
    ends = []
    for steps, gradients in ((2, slices), (1, [sum(map(tf.convert_to_tensor, slices)) / 2])):
        variable = tf.Variable(tf.ones([3, 2]), name="table")
        optimizer = make(keras_version, "LAMB", learning_rate=0.1, accumulation_steps=steps)
        for gradient in gradients:
            optimizer.apply_gradients([(gradient, variable)])
        ends.append(variable.numpy())
    np.testing.assert_allclose(*ends, rtol=1e-6)
