"""Package attributes that are imported on first use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from tfbigbatch import keras_version


class LazyNames:
    """The lazy attributes of a package, for its `__getattr__` and `__dir__`.

    Args:
      package: its dotted name.
      homes: the submodule of `package` that defines each name, or its full dotted name.
      for_keras: names of `tfbigbatch.keras2` and of its module `keras3`, which is an attribute too; for the `tf.keras`
        in use.
    """

    def __init__(self, package: str, homes: Mapping[str, str], for_keras: Iterable[str] = ()) -> None:
        self._package, self._homes, self._for_keras = package, homes, tuple(for_keras)
        self._modules = ("keras3",) if self._for_keras else ()

    def get(self, name: str) -> Any:
        """The attribute; AttributeError where there is none."""
        if name in self._homes:
            home = self._homes[name] if "." in self._homes[name] else f"{self._package}.{self._homes[name]}"
            return getattr(importlib.import_module(home), name)
        if name in self._for_keras:
            return getattr(keras_version.module_for(self._package), name)
        if name in self._modules:
            return importlib.import_module(f"{self._package}.{name}")
        known = ", ".join([*sys.modules[self._package].__all__, *self._modules])
        raise AttributeError(f"module {self._package!r} has no attribute {name!r}; it has {known}")

    def names(self) -> list[str]:
        """All attributes, imported or not."""
        return sorted({*vars(sys.modules[self._package]), *self._homes, *self._for_keras, *self._modules})
