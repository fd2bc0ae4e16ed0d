"""Callbacks for anyone's `fit`.

`ExactResume` is a callback of the `tf.keras` in use; `callbacks.keras2` and `callbacks.keras3` have those of one Keras
each.
"""

from __future__ import annotations

from typing import Any

from tfbigbatch.lazy_names import LazyNames

__all__ = ["ExactResume"]
_lazy = LazyNames(__name__, {}, ("ExactResume",))


def __getattr__(name: str) -> Any:
    return _lazy.get(name)


def __dir__() -> list[str]:
    return _lazy.names()
