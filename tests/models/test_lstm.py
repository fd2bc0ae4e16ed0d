import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfbigbatch.models.lstm import SequenceLSTM


def inputs(seed=0):
    return tf.constant(np.random.RandomState(seed).normal(size=(3, 5, 2)), tf.float32)


def gradients(layer, values, jit_compile):
    @tf.function(jit_compile=jit_compile)
    def run(values):
        with tf.GradientTape() as tape:
            tape.watch(values)
            outputs = layer(values)
            loss = tf.reduce_sum(outputs * inputs(1)[:, :, :1])
        return outputs, tape.gradient(loss, [values, *layer.trainable_variables])

    return run(values)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_it_is_keras_layer_with_its_gradients(jit_compile):
    ours, keras = SequenceLSTM(4, initial_scale=0.8), tf_keras.layers.LSTM(4, return_sequences=True)
    expected = keras(inputs())
    ours(inputs())
    keras.set_weights(ours.get_weights())
    expected = gradients(keras, inputs(), False)
    tf.nest.map_structure(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6),
        gradients(ours, inputs(), jit_compile),
        expected,
    )


def test_in_bfloat16_the_cell_and_the_weights_stay_float32():
    layer = SequenceLSTM(4, initial_scale=0.8, dtype="mixed_bfloat16")
    wide = SequenceLSTM(4)
    wide(inputs())
    outputs = layer(inputs())
    wide.set_weights(layer.get_weights())
    assert outputs.dtype == tf.bfloat16 and layer.cell.kernel.dtype == tf.float32
    assert [part.dtype for part in layer.step(tf.cast(inputs()[:, 0], tf.bfloat16), layer.zero_state(3))] == [
        tf.bfloat16,
        tf.float32,
    ]
    np.testing.assert_allclose(tf.cast(outputs, tf.float32), wide(inputs()), atol=0.03)


def test_where_a_gpu_is_visible_it_is_keras_own(monkeypatch):
    layer = SequenceLSTM(4, initial_scale=0.8)
    expected = layer(inputs())
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind=None: ["GPU:0"])
    run = tf.function(layer)
    np.testing.assert_allclose(run(inputs()), expected, rtol=1e-5, atol=1e-6)
    names = {node.op for node in run.get_concrete_function(inputs()).graph.as_graph_def().node}
    assert "PartitionedCall" in names and "While" not in names
