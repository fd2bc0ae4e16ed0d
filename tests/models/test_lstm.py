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
