import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.models import mnist_cnn


def test_it_has_the_published_layers():
    model = mnist_cnn.mnist_cnn(shape=(28, 28), classes=10, brightest=255)
    logits = model(np.zeros((3, 28, 28), np.uint8))
    assert logits.shape == (3, 10) and logits.dtype == tf.float32
    kernels = [variable.shape.as_list() for variable in model.trainable_variables if "kernel" in variable.name]
    assert kernels == [[5, 5, 1, 32], [5, 5, 32, 64], [7 * 7 * 64, 1024], [1024, 10]]
    assert model.count_params() == 3_274_634


@pytest.mark.parametrize("change", [{"shape": (3, 28)}, {"filters": 0}, {"fc_units": 0}, {"dropout": 1.0}])
def test_sizes_that_do_not_fit_are_refused(change):
    with pytest.raises(ValueError, match="expected images of 4 x 4 or more"):
        mnist_cnn.mnist_cnn(**{"shape": (28, 28), "classes": 10, "brightest": 255, **change})
