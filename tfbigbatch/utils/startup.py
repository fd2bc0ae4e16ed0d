"""TensorFlow's import in a process that trains."""

from __future__ import annotations

import gc
import importlib
import sys

_NOT_FOR_TRAINING = ("jax", "matplotlib", "sklearn", "IPython")
"""Packages that TensorFlow and Keras import where they are installed, and training does not need."""


def import_tensorflow() -> None:
    """Imports TensorFlow and Keras for training, in three quarters of the time; nothing where they are there already.

    TensorFlow imports JAX to convert it for mobiles, Keras imports Matplotlib, scikit-learn and IPython for plots and
    wrappers; both do without where their import fails. They come when someone imports them. The collector of cyclic
    garbage is paused meanwhile, and does not visit later what is there now.
    """
    if "tensorflow" in sys.modules:
        return
    left_out = [name for name in _NOT_FOR_TRAINING if name not in sys.modules]
    gc.disable()
    try:
        for name in left_out:
            sys.modules[name] = None  # type: ignore[assignment]  # how Python makes an import fail
        try:
            importlib.import_module("tensorflow")
            importlib.import_module("keras")
        finally:
            for name in left_out:
                del sys.modules[name]
        gc.freeze()
    finally:
        gc.enable()
