"""tensorflow-addons' module of LAMB and its test helpers, with our LAMB."""

from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from tfbigbatch import keras2
from tfbigbatch.optimizers.exclusions import is_excluded


@tf_keras.saving.register_keras_serializable("peer_names")
class LAMB(keras2.LAMB):
    """Ours, with the private names that the tests read."""

    def _get_hyper(self, name: str) -> Any:
        return getattr(self, name)

    def _do_use_weight_decay(self, variable: tf.Variable) -> bool:
        return not is_excluded(variable.name, self.get_config()["exclude_from_weight_decay"])

    def _do_layer_adaptation(self, variable: tf.Variable) -> bool:
        return not is_excluded(variable.name, self.get_config()["exclude_from_layer_adaptation"])


def is_gpu_available() -> bool:
    return bool(tf.config.list_physical_devices("GPU"))


def assert_allclose_according_to_type(one: Any, other: Any) -> None:
    """Within 1e-6, and 1e-3 where one of the two is float16."""
    one, other = np.asarray(one), np.asarray(other)
    tolerance = 1e-3 if np.float16 in (one.dtype, other.dtype) else 1e-6
    np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
