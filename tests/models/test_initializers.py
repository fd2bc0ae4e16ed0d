"""frequency_bias in a head of either Keras: where the loss begins, and saved models."""

import numpy as np
import pytest

from tests.helpers.keras_versions import KERAS, KERAS_VERSIONS
from tfbigbatch.models import frequency_bias

COUNTS = [990, 0, 10]
FREQUENCIES = np.array([991, 1, 11]) / 1003


@pytest.mark.parametrize("version", KERAS_VERSIONS)
def test_an_unbalanced_classifier_begins_at_the_entropy_of_its_classes(version, tmp_path):
    keras = KERAS[version]
    bias = keras.initializers.Constant(frequency_bias(COUNTS))
    dense = keras.layers.Dense(3, kernel_initializer="zeros", bias_initializer=bias)
    model = keras.Sequential([keras.layers.Input((2,)), dense])
    labels = np.repeat(np.arange(3), COUNTS)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    begins = float(loss(labels, model(np.random.RandomState(0).normal(size=(1000, 2)).astype("float32"))))
    assert begins == pytest.approx(-np.log(FREQUENCIES[labels]).mean(), rel=1e-5)
    entropy = -(0.99 * np.log(0.99) + 0.01 * np.log(0.01))
    assert begins == pytest.approx(entropy, abs=0.002)
    # With a bias of zeros it is log(3).
    assert begins < np.log(3) / 15
    model.save(tmp_path / "model.keras")
    for same in (keras.models.load_model(tmp_path / "model.keras"), keras.models.clone_model(model)):
        np.testing.assert_allclose(same.layers[-1].bias_initializer((3,)), np.log(FREQUENCIES), rtol=1e-6)


@pytest.mark.parametrize("counts", [[[1, 2]], [1, -2], [1, np.nan], [], ["a", "b"]])
def test_bad_counts_are_refused(counts):
    with pytest.raises(ValueError):
        frequency_bias(counts)
