"""LARS, LAMB, Muon, Shampoo, AdamW, Adasum and LocalSteps for Keras.

Use `tfbigbatch.LAMB`, or `get` to make any optimizer by name.

`tfbigbatch.keras2` and `tfbigbatch.optimizers.keras3` have the optimizers for one Keras each; `LARS`, `LAMB`, `Muon`,
`Shampoo`, `AdamW`, `Adasum` and `LocalSteps` here are those of the `tf.keras` in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfbigbatch.lazy_names import LazyNames

if TYPE_CHECKING:
    # For editors and type checkers: the classes of the other Keras have the same arguments.
    from tfbigbatch.optimizers.accumulation import accumulate_gradients
    from tfbigbatch.optimizers.accumulation_schedule import AccumulationSchedule
    from tfbigbatch.optimizers.checkpointing import restore_from_saved_model
    from tfbigbatch.optimizers.exclusions import NORM_AND_BIAS
    from tfbigbatch.optimizers.keras3 import LAMB, LARS, AdamW, Adasum, LocalSteps, Muon, Shampoo
    from tfbigbatch.optimizers.matrices import einsum_treatments
    from tfbigbatch.optimizers.registry import get, names, register

_HOMES = {
    "AccumulationSchedule": "accumulation_schedule",
    "NORM_AND_BIAS": "exclusions",
    "accumulate_gradients": "accumulation",
    "einsum_treatments": "matrices",
    "get": "registry",
    "names": "registry",
    "register": "registry",
    "restore_from_saved_model": "checkpointing",
}
_OPTIMIZERS = ("AdamW", "Adasum", "LAMB", "LARS", "LocalSteps", "Muon", "Shampoo")

# Spelt out, so that type checkers know the names as public.
__all__ = [
    "AccumulationSchedule",
    "AdamW",
    "Adasum",
    "LAMB",
    "LARS",
    "LocalSteps",
    "Muon",
    "NORM_AND_BIAS",
    "Shampoo",
    "accumulate_gradients",
    "einsum_treatments",
    "get",
    "names",
    "register",
    "restore_from_saved_model",
]
_lazy = LazyNames(__name__, _HOMES, _OPTIMIZERS)


def __getattr__(name: str) -> Any:
    return _lazy.get(name)


def __dir__() -> list[str]:
    return _lazy.names()
