"""LARS, LAMB, Muon, Shampoo, AdamW, Adasum and LocalSteps for Keras.

Use `tfbigbatch.LAMB`, or `get` to make any optimizer by name.

`tfbigbatch.optimizers.keras2` and `tfbigbatch.optimizers.keras3` have the optimizers for one Keras each; `LARS`,
`LAMB`, `Muon`, `Shampoo`, `AdamW`, `Adasum` and `LocalSteps` here are those of the `tf.keras` in use.
"""

from __future__ import annotations

from typing import Any

from tfbigbatch.lazy_names import LazyNames

_HOMES = {
    "AccumulationSchedule": "accumulation_schedule",
    "NORM_AND_BIAS": "exclusions",
    "accumulate_gradients": "accumulation",
    "get": "registry",
    "names": "registry",
    "register": "registry",
    "restore_from_saved_model": "checkpointing",
    "sharded": "sharded_adam",
}
_OPTIMIZERS = ("AdamW", "Adasum", "LAMB", "LARS", "LocalSteps", "Muon", "Shampoo")

__all__ = [*_HOMES, *_OPTIMIZERS]
_lazy = LazyNames(__name__, _HOMES, _OPTIMIZERS)


def __getattr__(name: str) -> Any:
    return _lazy.get(name)


def __dir__() -> list[str]:
    return _lazy.names()
