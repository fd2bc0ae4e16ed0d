"""LARS, LAMB, Muon, Shampoo, AdamW, Adasum and LocalSteps for Keras.

Use `tfbigbatch.LAMB`, or `get` to make any optimizer by name.

`tfbigbatch.keras2` and `tfbigbatch.optimizers.keras3` have the optimizers for one Keras each; `LARS`, `LAMB`, `Muon`,
`Shampoo`, `AdamW`, `Adasum` and `LocalSteps` here are those of the `tf.keras` in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfbigbatch import lazy_names

if TYPE_CHECKING:
    # For editors and type checkers: the classes of the other Keras have the same arguments.
    from tfbigbatch.optimizers.accumulation import accumulate_gradients
    from tfbigbatch.optimizers.exclusions import NORM_AND_BIAS
    from tfbigbatch.optimizers.keras3 import LAMB, LARS, AdamW, Adasum, LocalSteps, Muon, Shampoo
    from tfbigbatch.optimizers.matrices import einsum_treatments
    from tfbigbatch.optimizers.registry import get, names, register
    from tfbigbatch.optimizers.rule import AccumulationSchedule

# Spelt out, so that type checkers know the names as public.
__all__ = ["AdamW", "Adasum", "LAMB", "LARS", "LocalSteps", "Muon", "Shampoo"]
_OPTIMIZERS = tuple(__all__)
__all__ += ["AccumulationSchedule", "NORM_AND_BIAS", "accumulate_gradients", "einsum_treatments"]
__all__ += ["get", "names", "register"]
_HOMES = {
    "AccumulationSchedule": "rule",
    "NORM_AND_BIAS": "exclusions",
    "accumulate_gradients": "accumulation",
    "einsum_treatments": "matrices",
    **dict.fromkeys(("get", "names", "register"), "registry"),
}
__getattr__, __dir__ = lazy_names.of(__name__, _HOMES, for_keras=_OPTIMIZERS, modules=["keras3"])
