"""LARS, LAMB, Muon, Shampoo, AdamW, Adasum and LocalSteps for Keras.

Use `tfbigbatch.LAMB` and the others in code, `get` where a config names an optimizer; `register` adds one of yours.
`tfbigbatch.keras2` and `tfbigbatch.optimizers.keras3` have the optimizers for one Keras each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfbigbatch import lazy_names

if TYPE_CHECKING:
    from tfbigbatch.optimizers.accumulation import accumulate_gradients
    from tfbigbatch.optimizers.matrices import einsum_treatments
    from tfbigbatch.optimizers.registry import get, register

# Spelt out, so that type checkers know the names as public.
__all__ = ["accumulate_gradients", "einsum_treatments", "get", "register"]
_HOMES = {
    "accumulate_gradients": "accumulation",
    "einsum_treatments": "matrices",
    **dict.fromkeys(("get", "register"), "registry"),
}
__getattr__, __dir__ = lazy_names.of(__name__, _HOMES, modules=["keras3"])
