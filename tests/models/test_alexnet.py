import numpy as np
import pytest

from tests.conftest import without_values
from tfbigbatch.models.alexnet import alexnet
from tfbigbatch.models.image_layers import LocalResponseNormalization

IMAGENET = {"image_size": 227, "classes": 1000}
SMALL = {"image_size": 32, "classes": 10, "stem": "5x5", "width": 12, "fc_units": 64}


def trainable(model):
    return sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)


def test_the_parameter_counts_are_those_of_caffes_model():
    assert trainable(without_values(alexnet, **IMAGENET)) == 60_965_224
    assert trainable(without_values(alexnet, **IMAGENET, groups=1)) == 62_378_344
    # Less a bias, more a gamma and a beta for each of the 1,376 channels.
    assert trainable(without_values(alexnet, **IMAGENET, norm="batch")) == 60_965_224 + 1_376


def test_shapes_are_those_of_the_paper():
    shapes = {1: (55, 96), 2: (27, 256), 3: (13, 384), 4: (13, 384), 5: (13, 256)}
    published = without_values(alexnet, **IMAGENET)
    for model in (published, without_values(alexnet, image_size=224, classes=10, fc_units=8)):
        for number, (size, filters) in shapes.items():
            assert model.get_layer(f"conv{number}").output.shape == (None, size, size, filters)
        assert model.get_layer("pool5").output.shape == (None, 6, 6, 256)
    assert published.get_layer("conv2").kernel.shape == (5, 5, 48, 256)
    names = [layer.name for layer in published.layers]
    assert names[3:7] == ["conv1", "relu1", "lrn1", "pool1"]
    assert "lrn2" in names and "lrn3" not in names and "pool3" not in names


@pytest.mark.parametrize(
    "stem, size, after", [("5x5", 32, 32), ("5x5_stride2", 64, 32), ("5x5", 15, 15), ("11x11_stride4", 64, 15)]
)
def test_stems_for_small_images(stem, size, after):
    model = alexnet(**{**SMALL, "stem": stem, "image_size": size, "groups": 1})
    assert model.get_layer("conv1").output.shape == (None, after, after, 12)
    assert model.get_layer("pool5").output.shape[1] == (3 if after == 32 else 1)
    assert model.output.shape == (None, 10)


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


def test_batch_normalization_follows_each_convolution():
    model = alexnet(**SMALL, norm="batch")
    for number in range(1, 6):
        convolution, norm = model.get_layer(f"conv{number}"), model.get_layer(f"bn{number}")
        assert not convolution.use_bias and norm.input is convolution.output
        assert model.get_layer(f"relu{number}").input is norm.output
        assert (norm.momentum, norm.epsilon) == (0.9, 1e-4)
        assert not norm.synchronized
    shared = alexnet(**SMALL, norm="batch", cross_replica_norm=True)
    assert all(shared.get_layer(f"bn{number}").synchronized for number in range(1, 6))
