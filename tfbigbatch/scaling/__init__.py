"""Scaling rules that transfer a tuned recipe to another batch size, batch ramps, and DATE, which adapts the warm-up."""

from __future__ import annotations

from tfbigbatch import lazy_names
from tfbigbatch.scaling.moments import MOMENTS, WEIGHT_DECAYS
from tfbigbatch.scaling.recipe import RULES, Recipe

_HOMES = {
    "BatchRamp": "batch_ramp",
    "DATE": "date",
    "RampLog": "ramp_log",
    "make_adjustable": "date",
}

__all__ = ["MOMENTS", "RULES", "WEIGHT_DECAYS", "BatchRamp", "Recipe", "DATE", "RampLog", "make_adjustable"]
__getattr__, __dir__ = lazy_names.of(__name__, _HOMES)
