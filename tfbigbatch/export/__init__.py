"""A run's trained network as files for others: `.keras` of Keras 2 and of Keras 3, and a SavedModel."""

from __future__ import annotations

from tfbigbatch import lazy_names

__getattr__, __dir__ = lazy_names.of(
    __name__, {"Exported": "run", "FORMATS": "formats", "convert": "to_keras3", "export_run": "run"}
)
__all__ = ["FORMATS", "Exported", "convert", "export_run"]
