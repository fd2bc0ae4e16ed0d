"""Registration of this package's classes with each Keras, when that Keras is imported.

A saved model names its optimizer, schedule and layers, and Keras looks the names up among the registered
classes. A process that only loads a model imports none of their modules by itself.
"""

from __future__ import annotations

import importlib
import sys
import types
import warnings
from collections.abc import Sequence
from typing import Any

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
    waiting = {name for name in _MODULES if name not in sys.modules}
    for name in _MODULES.keys() - waiting:
        _register(name)
    if waiting and not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(waiting))


class _Finder:
    """Finds a Keras as the other finders of `sys.meta_path` do, and has `_register` called at the end of its import.

    wrapt has such a hook too; to import it takes 60 ms, this package 5.
    """

    def __init__(self, waiting: set[str]) -> None:
        self._waiting = waiting

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None) -> Any:
        if fullname not in self._waiting:
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        spec = next((found for each in others if (found := each.find_spec(fullname, path, target))), None)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def exec_module(module: types.ModuleType) -> None:
                execute(module)
                # Not before: others look for a module without importing it.
                self._waiting.discard(fullname)
                _register(fullname)

            # On the loader itself, which stays what other packages expect to find in the module's `__spec__`.
            loader.exec_module = exec_module
        return spec


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
