import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.models import lenet


def test_lenet_5_has_the_published_layers():
    model = lenet.lenet(shape=(28, 28), classes=10, brightest=255)
    logits = model(np.zeros((3, 28, 28), np.uint8))
    assert logits.shape == (3, 10) and logits.dtype == tf.float32
    kernels = [variable.shape.as_list() for variable in model.trainable_variables if "kernel" in variable.name]
    assert kernels == [[5, 5, 1, 6], [5, 5, 6, 16], [400, 120], [120, 84], [84, 10]]
    # The dense half of LeCun et al.'s own count; their second convolution saw some of the maps only.
    assert model.count_params() == 61_706


@pytest.mark.parametrize("change", [{"shape": (11, 28)}, {"filters": 4}, {"fc_units": 84}])
def test_sizes_that_do_not_fit_are_refused(change):
    with pytest.raises(ValueError, match="expected images of 12 x 12 or more"):
        lenet.lenet(**{"shape": (28, 28), "classes": 10, "brightest": 255, **change})
