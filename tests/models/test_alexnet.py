import numpy as np
import pytest

from tests.conftest import without_values
from tfbigbatch.models.alexnet import alexnet
from tfbigbatch.models.image_layers import LocalResponseNormalization

IMAGENET = {"image_size": 227, "classes": 1000}


def trainable(model):
    return sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)


def test_the_parameter_counts_are_those_of_caffes_model():
    assert trainable(without_values(alexnet, **IMAGENET)) == 60_965_224
    assert trainable(without_values(alexnet, **IMAGENET, groups=1)) == 62_378_344
    # Less a bias, more a gamma and a beta for each of the 1,376 channels.
    assert trainable(without_values(alexnet, **IMAGENET, norm="batch")) == 60_965_224 + 1_376


def test_weights_begin_as_caffes():
    published = alexnet(**IMAGENET)
    biases = {"conv1": 0, "conv2": 0.1, "conv3": 0, "conv4": 0.1, "conv5": 0.1, "fc6": 0.1, "fc7": 0.1, "logits": 0}
    for name, constant in biases.items():
        kernel, bias = published.get_layer(name).get_weights()
        assert kernel.std() == pytest.approx(0.005 if name in ("fc6", "fc7") else 0.01, rel=0.02)
        np.testing.assert_array_equal(bias, np.float32(constant))


def numpy_lrn(values, k=2, n=5, alpha=1e-4, beta=0.75):
    """Equation of section 3.3, channel by channel."""
    values = values.astype(np.float64)
    channels = values.shape[-1]
    result = np.empty_like(values)
    for i in range(channels):
        neighbours = values[..., max(0, i - n // 2) : min(channels - 1, i + n // 2) + 1]
        result[..., i] = values[..., i] / (k + alpha * np.sum(neighbours**2, axis=-1)) ** beta
    return result


def test_local_response_normalization_is_that_of_the_paper():
    values = np.random.RandomState(0).normal(0, 100, (2, 3, 3, 9)).astype(np.float32)
    layer = LocalResponseNormalization()
    expected = numpy_lrn(values)
    np.testing.assert_allclose(layer(values), expected, rtol=1e-5)
    # The constants do something to such values, and almost nothing to values of about 1.
    assert np.std(expected / values) > 0.02
    assert np.std(numpy_lrn(values / 100) / values * 100) < 1e-4
