"""frequency_bias in a head of either Keras: where the loss begins, its gradient, and saved models."""

import copy

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.keras_versions import KERAS, KERAS_VERSIONS
from tfbigbatch.models import frequency_bias

COUNTS = [990, 0, 10]
FREQUENCIES = np.array([991, 1, 11]) / 1003


@pytest.fixture(params=KERAS_VERSIONS)
def keras(request):
    return KERAS[request.param]


def head(keras, kernel="zeros", dtype="float32", counts=COUNTS):
    dense = keras.layers.Dense(3, kernel_initializer=kernel, bias_initializer=frequency_bias(counts), dtype=dtype)
    return keras.Sequential([keras.layers.Input((2,)), dense])


def tf_variables(keras, model):
    weights = model.trainable_weights
    return [weight.value for weight in weights] if keras is KERAS["keras3"] else weights


def test_an_unbalanced_classifier_begins_at_the_entropy_of_its_classes(keras):
    labels = np.repeat(np.arange(3), COUNTS)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    inputs = np.random.RandomState(0).normal(size=(1000, 2)).astype("float32")
    begins = float(loss(labels, head(keras)(inputs)))
    assert begins == pytest.approx(-np.log(FREQUENCIES[labels]).mean(), rel=1e-5)
    entropy = -(0.99 * np.log(0.99) + 0.01 * np.log(0.01))
    assert begins == pytest.approx(entropy, abs=0.002)
    # With a bias of zeros it is log(3).
    assert begins < np.log(3) / 15


def test_the_bias_is_trained_as_any_other(keras):
    model, inputs, label = head(keras), np.ones([1, 2], np.float32), np.array([2])
    weights = tf_variables(keras, model)
    with tf.GradientTape() as tape:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(label, model(inputs))
    kernel, bias = tape.gradient(loss, weights)
    expected = FREQUENCIES - np.eye(3)[2]
    np.testing.assert_allclose(bias, expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(kernel, [expected, expected], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "bfloat16"])
def test_the_bias_has_the_dtype_of_the_layer(keras, dtype):
    [_, bias] = tf_variables(keras, head(keras, dtype=dtype))
    assert bias.dtype == ("bfloat16" if dtype == "bfloat16" else "float32")
    rounding = 0.01 if dtype == "bfloat16" else 1e-6
    np.testing.assert_allclose(tf.cast(bias, tf.float32), np.log(FREQUENCIES), rtol=rounding)


@pytest.mark.parametrize("counts", [COUNTS, np.array(COUNTS), np.array([0.5, 2.0, 0.25], np.float32)])
def test_a_model_with_it_is_copied_saved_and_loaded(keras, tmp_path, counts):
    model = head(keras, kernel="ones", counts=counts)
    model.save(tmp_path / "model.keras")
    for same in (keras.models.load_model(tmp_path / "model.keras"), keras.models.clone_model(model)):
        initializer = same.layers[-1].bias_initializer
        assert initializer.get_config() == {"counts": np.asarray(counts).tolist(), "smoothing": 1.0}
        np.testing.assert_array_equal(same.layers[-1].get_weights()[1], model.layers[-1].get_weights()[1])
    made = frequency_bias(counts, smoothing=2)
    described = keras.saving.serialize_keras_object(made)
    for same in (copy.deepcopy(made), keras.saving.deserialize_keras_object(described)):
        np.testing.assert_array_equal(same((3,), "float32"), made((3,), "float32"))


def test_bad_counts_are_refused_where_they_are_given_and_another_shape_where_it_is_used(keras):
    with pytest.raises(ValueError, match=r"counts\[1\]=-1.0"):
        frequency_bias([1, -1])
    with pytest.raises(ValueError, match=r"the bias has the shape \[4\], and there are 3 counts"):
        keras.layers.Dense(4, bias_initializer=frequency_bias(COUNTS)).build((None, 2))
