"""The advisor: a short run measures the gradient noise scale and the speed, and says which batch is worth using."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {"Advice": "advice", "advise": "model", "advise_experiment": "of_experiment"}

__all__ = ["Advice", "advise", "advise_experiment"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"tfbigbatch.advice.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(_HOMES)}.")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
