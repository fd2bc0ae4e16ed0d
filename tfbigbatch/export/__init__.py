"""A run's trained network as files for others: `.keras` of Keras 2 and of Keras 3, and a SavedModel."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {"Exported": "run", "FORMATS": "formats", "convert": "to_keras3", "export_run": "run"}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}.")
