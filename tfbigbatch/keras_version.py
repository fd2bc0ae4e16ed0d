"""Which of the two Kerases is meant: `tf_keras` (Keras 2) or `keras` (Keras 3)."""

import importlib
import os

from tfbigbatch.errors import InputError, nearest

# Name of a face: the package of its Keras.
KERAS = {"tf_keras": "tf_keras", "keras3": "keras"}


def chosen(keras=None):
    """'tf_keras' or 'keras3': `keras` itself, or for None the Keras that `tf.keras` is.

    `tf.keras` is Keras 3, unless TF_USE_LEGACY_KERAS is set.

    Raises:
      ValueError: `keras` is neither.
    """
    if keras is None:
        # The values that TensorFlow itself takes for yes.
        keras = "tf_keras" if os.environ.get("TF_USE_LEGACY_KERAS") in ("true", "True", "1") else "keras3"
    if keras not in KERAS:
        raise InputError(f"keras={keras!r} is unknown. {nearest(keras, KERAS)}")
    return keras


def face_of(package, keras=None):
    """The module of `package` ('tfbigbatch.optimizers', ...) that serves a Keras; arguments as for `chosen`."""
    return importlib.import_module(f"{package}.{chosen(keras)}")
