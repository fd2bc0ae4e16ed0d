"""Callbacks for anyone's `fit`, of Keras 2 and Keras 3."""

from __future__ import annotations

from tfbigbatch import lazy_names

__all__ = ["ExactResume"]
__getattr__, __dir__ = lazy_names.of(__name__, {"ExactResume": "exact_resume"})
