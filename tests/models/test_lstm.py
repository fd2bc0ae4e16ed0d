import keras
import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.models.lstm import SequenceLSTM, lstm

LARGE = {"kernel_initializer": "normal", "return_sequences": True, "return_state": True}


def tensors(seed, *shape):
    return tf.constant(np.random.RandomState(seed).normal(size=shape), tf.float32)


def derivatives(layer, rows, jit_compile=False):
    """Outputs and states, their first derivatives, and the second ones, as the measurements of curvature take them."""
    given = tensors(0, rows, 5, 2), tensors(1, rows, 4), tensors(2, rows, 4)

    @tf.function(jit_compile=jit_compile)
    def run():
        sources = [*given, *(each.value for each in layer.trainable_variables)]
        with tf.GradientTape() as outer:
            outer.watch(given)
            with tf.GradientTape() as inner:
                inner.watch(given)
                results = layer(given[0], initial_state=given[1:])
                loss = sum(tf.reduce_sum(tf.sin(each)) / number for number, each in enumerate(results, 1))
            first = inner.gradient(loss, sources)
            total = sum(tf.reduce_sum(each) / number for number, each in enumerate(first, 1))
        return results, first, outer.gradient(total, sources)

    return [each.numpy() for each in tf.nest.flatten(run())]


# The kernel has one product of all time steps for few rows, and a loop for more.
@pytest.mark.parametrize("rows, jit_compile", [(2, False), (3, False), pytest.param(2, True, marks=pytest.mark.slow)])
def test_it_is_keras_layer_with_its_first_and_second_derivatives(rows, jit_compile):
    ours, theirs = SequenceLSTM(4, **LARGE), keras.layers.LSTM(4, **LARGE)
    for layer in (ours, theirs):
        layer.build((rows, 5, 2))
    theirs.set_weights(ours.get_weights())
    for one, other in zip(derivatives(ours, rows, jit_compile), derivatives(theirs, rows)):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("options", [{"return_sequences": False}, {"dropout": 0.5}, {"activation": "relu"}])
def test_what_the_kernel_has_not_is_keras_own(options):
    ours, theirs = (kind(4, seed=1, **{**LARGE, **options}) for kind in (SequenceLSTM, keras.layers.LSTM))
    for layer in (ours, theirs):
        layer.build((3, 5, 2))
    theirs.set_weights(ours.get_weights())
    for one, other in zip(ours(tensors(0, 3, 5, 2), training=True), theirs(tensors(0, 3, 5, 2), training=True)):
        np.testing.assert_array_equal(one, other)


def test_in_bfloat16_the_cell_and_the_weights_stay_float32():
    inputs = tensors(0, 2, 5, 2)
    layer, wide = SequenceLSTM(4, return_sequences=True, dtype="mixed_bfloat16"), SequenceLSTM(4, return_sequences=True)
    outputs = layer(inputs)
    wide.build(inputs.shape)
    wide.set_weights(layer.get_weights())
    assert outputs.dtype == tf.bfloat16 and layer.cell.kernel.dtype == "float32"
    stepped = layer.step(tf.cast(inputs[:, 0], tf.bfloat16), layer.zero_state(2))
    assert [part.dtype for part in stepped] == [tf.bfloat16, tf.float32]
    np.testing.assert_allclose(tf.cast(outputs, tf.float32), wide(inputs), atol=0.03)


def test_where_a_gpu_is_visible_cudnn_takes_it_unless_it_is_unrolled_or_xla_compiles_it(monkeypatch):
    # Nothing runs on it.
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind=None: ["GPU:0"])

    def operations(layer, jit_compile):
        run = tf.function(lambda values: layer(values), jit_compile=jit_compile)
        graph = run.get_concrete_function(tensors(0, 2, 5, 2)).graph.as_graph_def()
        return {node.op for node in graph.node}

    layer = lstm(4, return_sequences=True)
    layer.build((2, 5, 2))
    assert "CudnnRNNV3" in operations(layer, False) and "CudnnRNNV3" not in operations(layer, True)
    unrolled = lstm(4, unroll=True, name="unrolled")
    unrolled.build((2, 5, 2))
    assert "CudnnRNNV3" not in operations(unrolled, False)
