import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.models import lstm


@pytest.mark.parametrize("projection_units, dropout", [(0, 0.0), (16, 0.5)])
def test_shapes_and_dtypes(projection_units, dropout):
    model = lstm.row_classifier(
        shape=(8, 6), classes=10, brightest=16, hidden_units=12, projection_units=projection_units, dropout=dropout
    )
    logits = model(np.zeros((3, 8, 6), np.uint8))
    assert logits.shape == (3, 10) and logits.dtype == tf.float32


def test_the_parameter_count_is_that_of_the_formula():
    model = lstm.row_classifier(shape=(28, 28), classes=10, brightest=255, hidden_units=128, projection_units=128)
    projection, recurrent, logits = 28 * 128 + 128, 4 * (128 + 128 + 1) * 128, 128 * 10 + 10
    assert model.count_params() == projection + recurrent + logits


@pytest.mark.parametrize("unroll", [False, True])
def test_xla_compiles_a_training_pass_to_the_same_numbers(unroll, monkeypatch):
    # Nothing runs on it.
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [kind])
    model = lstm.row_classifier(shape=(5, 6), classes=3, brightest=16, hidden_units=4, unroll=unroll)
    # Private to tf_keras, and the one place where it says so: cuDNN's kernel takes the layer as long as it is a loop.
    assert model.get_layer("lstm")._could_use_gpu_kernel is not unroll
    images = np.random.RandomState(0).randint(0, 17, (8, 5, 6)).astype(np.uint8)

    def forward_and_backward(images):
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            labels = tf.range(8) % 3
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        return loss, tape.gradient(loss, model.trainable_variables)

    plain = tf.function(forward_and_backward)(images)
    compiled = tf.function(forward_and_backward, jit_compile=True)(images)
    tf.nest.map_structure(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), plain, compiled)
