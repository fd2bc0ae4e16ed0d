"""`accumulation_steps` on the optimizer, for anyone's `fit`: equal to the larger batch, wherever it runs."""

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
    state_by_name,
)


def plain_sgd(keras_version, accumulation_steps, **options):
    """LARS without layer adaptation is SGD with momentum: unlike LAMB, it shows every error of scale."""
    rate = KERAS[keras_version].optimizers.schedules.PolynomialDecay(0.1, 5, 0.01)
    return make(
        keras_version,
        "LARS",
        learning_rate=rate,
        exclude_from_layer_adaptation=["."],
        accumulation_steps=accumulation_steps,
        **options,
    )


@both_versions
@pytest.mark.parametrize("where", ["one", "graph", "xla", "layer_xla", "mirrored"])
def test_four_micro_batches_are_one_batch(keras_version, where):
    strategy = mirrored(4) if where == "mirrored" else ONE_DEVICE
    options = {
        "global_clipnorm": 0.2,
        "use_ema": True,
        "ema_overwrite_frequency": 2,
        "jit_compile": where == "layer_xla",
    }
    whole = fitted(keras_version, lambda: plain_sgd(keras_version, 1, **options), ONE_DEVICE, steps=5, batch_size=64)
    parts = fitted(
        keras_version,
        lambda: plain_sgd(keras_version, 4, **options),
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
