"""Choice between `tf_keras` (Keras 2) and `keras` (Keras 3)."""

from __future__ import annotations

import importlib
import importlib.util
import os
import types
from typing import Any

from tfbigbatch.errors import InputError, missing_extra
from tfbigbatch.utils import arguments

# Value of a `keras=` argument: the package of that Keras.
PACKAGES = {"tf_keras": "tf_keras", "keras3": "keras"}


def resolve(keras: str | None = None) -> str:
    """'tf_keras' or 'keras3': `keras` itself, or for None the Keras that `tf.keras` is.

    `tf.keras` is Keras 3 unless TF_USE_LEGACY_KERAS is set.

    Raises:
      ValueError: `keras` is neither.
    """
    if keras is None:
        # The values that TensorFlow itself reads as true.
        keras = "tf_keras" if os.environ.get("TF_USE_LEGACY_KERAS") in ("true", "True", "1") else "keras3"
    return arguments.one_of("keras", keras, PACKAGES)


def module_for(package: str, keras: str | None = None) -> types.ModuleType:
    """Our module for that Keras: `tfbigbatch.keras2`, or `keras3` of `package` ('tfbigbatch.optimizers', ...)."""
    return importlib.import_module("tfbigbatch.keras2" if resolve(keras) == "tf_keras" else f"{package}.keras3")


def keras_package(keras: str | None = None) -> types.ModuleType:
    """`tf_keras` or `keras` itself.

    Raises:
      ValueError: tf_keras is not installed.
    """
    name = PACKAGES[resolve(keras)]
    if name == "tf_keras" and importlib.util.find_spec(name) is None:
        raise missing_extra(name, "keras2")
    return importlib.import_module(name)


def require_tensorflow(owner: Any, what: str) -> None:
    """Checks that an object of Keras 3 runs on Keras' TensorFlow backend; Keras 2 has no other.

    Args:
      owner: the object; it is one of Keras 3 if a class of it is.
      what: its name in the message.

    Raises:
      ValueError: Keras 3 runs on another backend.
    """
    if not any(kind.__module__.partition(".")[0] == "keras" for kind in type(owner).__mro__):
        return
    backend = keras_package("keras3").config.backend()
    if backend != "tensorflow":
        raise InputError(
            f"{what} needs TensorFlow, and Keras 3 runs on {backend} here: set KERAS_BACKEND=tensorflow before Keras "
            "is imported."
        )
