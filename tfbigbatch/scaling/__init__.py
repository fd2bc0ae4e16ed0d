"""Rules that carry a tuned recipe from one batch size to another, and DATE, which watches them at work.

`DATE` is the callback of the `tf.keras` in use; `scaling.tf_keras.DATE` and `scaling.keras3.DATE`
are those of one Keras each.
"""

import importlib

from tfbigbatch import keras_version
from tfbigbatch.scaling.recipe import RULES, Recipe

# Imported on first use: they need TensorFlow, the rules do not.
_LAZY = ("DATE", "govern")
_MODULES = ("keras3", "tf_keras")

__all__ = ["RULES", "Recipe", *_LAZY]


def __getattr__(name):
    if name == "DATE":
        return keras_version.face_of(__name__).DATE
    if name == "govern":
        return importlib.import_module("tfbigbatch.schedules.adjustable_warmup").govern
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join([*__all__, *_MODULES])}")


def __dir__():
    return sorted([*globals(), *__all__, *_MODULES])
