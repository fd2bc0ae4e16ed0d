"""The advisor: a short run measures the gradient noise scale and the speed, and says which batch is worth using."""

from __future__ import annotations

from typing import Any

from tfbigbatch.lazy_names import LazyNames

_HOMES = {"Advice": "advice", "advise": "model", "advise_experiment": "experiment"}

__all__ = ["Advice", "advise", "advise_experiment"]
_lazy = LazyNames(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    return _lazy.get(name)


def __dir__() -> list[str]:
    return _lazy.names()
