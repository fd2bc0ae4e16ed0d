"""frequency_bias in a head of either Keras: where the loss begins, its gradient, and saved models."""

import copy

import numpy as np
import pytest

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
