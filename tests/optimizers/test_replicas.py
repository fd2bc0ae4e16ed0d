"""What must not depend on the number of replicas: clipping, loss scaling, XLA for each layer, averages."""

import pytest
import tensorflow as tf

from tests.conftest import mirrored
from tests.helpers.keras_versions import (
    KERAS_VERSIONS,
    assert_same_weights,
    fitted,
    make,
)

both_versions = pytest.mark.parametrize("keras_version", KERAS_VERSIONS)
ONE_DEVICE = tf.distribute.OneDeviceStrategy("CPU:0")


@both_versions
@pytest.mark.parametrize(
    "name, options",
    [
        ("LARS", {"clipnorm": 0.05}),
        pytest.param("LAMB", {"pre_normalize": True}, marks=pytest.mark.slow),
        pytest.param("LAMB", {"jit_compile": True}, marks=pytest.mark.slow),
        ("LAMB", {"clipvalue": 0.01, "use_ema": True, "ema_overwrite_frequency": 3}),
    ],
)
def test_two_replicas_end_where_one_does(keras_version, name, options):
    def optimizer():
        return make(keras_version, name, learning_rate=0.02, weight_decay=0.01, **options)

    one, two = (fitted(keras_version, optimizer, strategy, steps=8) for strategy in (ONE_DEVICE, mirrored(2)))
    assert_same_weights(two, one)
