"""A run's trained network as files for others: `.keras` of Keras 2 and of Keras 3, and a SavedModel."""

from __future__ import annotations

from typing import Any

from tfbigbatch.lazy_names import LazyNames

_lazy = LazyNames(__name__, {"Exported": "run", "FORMATS": "formats", "convert": "to_keras3", "export_run": "run"})
__all__ = ["FORMATS", "Exported", "convert", "export_run"]


def __getattr__(name: str) -> Any:
    return _lazy.get(name)
