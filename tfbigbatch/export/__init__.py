"""A run's trained network as files for others: `.keras`, a SavedModel, and weights."""

from __future__ import annotations

from tfbigbatch import lazy_names

__getattr__, __dir__ = lazy_names.of(__name__, {"export_run": "run"})
__all__ = ["export_run"]
