"""Package attributes that are imported on first use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def of(
    package: str, homes: Mapping[str, str], *, modules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for a package that imports its public names lazily, when they are first used.

    Args:
      package: its dotted name.
      homes: the submodule of `package` that defines each name.
      modules: submodules that are attributes too.
    """

    def get(name: str) -> Any:
        if name in homes:
            return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        if name in modules:
            return importlib.import_module(f"{package}.{name}")
        known = sorted({*sys.modules[package].__all__, *homes, *modules})
        raise AttributeError(f"module {package!r} has no attribute {name!r}; it has {', '.join(known)}")

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes, *modules})

    return get, names
