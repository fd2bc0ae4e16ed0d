"""Callbacks for anyone's `fit`, of Keras 2 and Keras 3."""

from __future__ import annotations

from typing import Any

from tfbigbatch.lazy_names import LazyNames

__all__ = ["ExactResume"]
_lazy = LazyNames(__name__, {"ExactResume": "exact_resume"})


def __getattr__(name: str) -> Any:
    return _lazy.get(name)


def __dir__() -> list[str]:
    return _lazy.names()
