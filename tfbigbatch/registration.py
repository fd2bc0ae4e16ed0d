"""Registration of this package's classes with each Keras, when that Keras is imported.

A saved model names its optimizer, schedule and layers, and Keras looks the names up among the registered
classes. A process that only loads a model imports none of their modules by itself.
"""

from __future__ import annotations

import importlib
import warnings

import wrapt

_MODULES = {
    "keras": (
        "tfbigbatch.optimizers.keras3",
        "tfbigbatch.schedules.keras3",
        "tfbigbatch.models.bert",
        "tfbigbatch.models.gnmt",
        "tfbigbatch.models.image_layers",
        "tfbigbatch.models.lstm",
    ),
    "tf_keras": ("tfbigbatch.keras2",),
}


def install() -> None:
    """Registers with each Keras that is imported already, and with the others after their import."""
    for name in _MODULES:
        wrapt.register_post_import_hook(lambda module: _register(module.__name__), name)


def _register(keras: str) -> None:
    try:
        for module in _MODULES[keras]:
            importlib.import_module(module)
    except Exception as error:  # Whatever it is, a program that imports Keras must not end here.
        warnings.warn(
            f"tfbigbatch could not register its classes with {keras}, so that saved models that hold one cannot be "
            f"loaded here ({type(error).__name__}: {error}).",
            stacklevel=2,
        )
