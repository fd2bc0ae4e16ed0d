"""Scaling rules that transfer a tuned recipe to another batch size, batch ramps, and DATE, which adapts the warm-up."""

from __future__ import annotations

from typing import Any

from tfbigbatch.lazy_names import LazyNames
from tfbigbatch.scaling.moments import MOMENTS, WEIGHT_DECAYS
from tfbigbatch.scaling.recipe import RULES, Recipe

_HOMES = {
    "BatchRamp": "batch_ramp",
    "DATE": "date",
    "RampLog": "ramp_log",
    "make_adjustable": "date",
}

__all__ = ["MOMENTS", "RULES", "WEIGHT_DECAYS", "BatchRamp", "Recipe", "DATE", "RampLog", "make_adjustable"]
_lazy = LazyNames(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    return _lazy.get(name)


def __dir__() -> list[str]:
    return _lazy.names()
