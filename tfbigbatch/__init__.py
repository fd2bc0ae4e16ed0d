"""tfbigbatch: large-batch training for Keras and TensorFlow.

`tfbigbatch.LARS`, `LAMB`, `Muon` and `Shampoo` are optimizers for `model.compile` of the `tf.keras` in use.
Names are imported on first use, so that `import tfbigbatch` costs next to nothing by itself.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tfbigbatch import registration

if TYPE_CHECKING:
    # For editors and type checkers: the classes of the other Keras have the same arguments.
    from tfbigbatch.optimizers.keras3 import LAMB, LARS, Adasum, LocalSteps, Muon, Shampoo
    from tfbigbatch.scaling.batch_ramp import BatchRamp
    from tfbigbatch.scaling.recipe import Recipe

__version__ = "0.3.0"

_HOMES = {
    "Adasum": "tfbigbatch.optimizers",
    "LAMB": "tfbigbatch.optimizers",
    "LARS": "tfbigbatch.optimizers",
    "LocalSteps": "tfbigbatch.optimizers",
    "Muon": "tfbigbatch.optimizers",
    "Recipe": "tfbigbatch.scaling",
    "BatchRamp": "tfbigbatch.scaling",
    "Shampoo": "tfbigbatch.optimizers",
    "load_run": "tfbigbatch.runs.load",
    "advise": "tfbigbatch.advice.model",
    "check": "tfbigbatch.instruments.time_constants",
}

_SUBPACKAGES = ("callbacks", "export", "instruments", "keras2", "optimizers", "scaling", "schedules")

# Spelt out, so that type checkers know the names as public.
__all__ = [
    "Adasum",
    "BatchRamp",
    "LAMB",
    "LARS",
    "LocalSteps",
    "Muon",
    "Recipe",
    "Shampoo",
    "__version__",
    "advise",
    "load_run",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _SUBPACKAGES:
        return importlib.import_module(f"tfbigbatch.{name}")
    known = ", ".join([*_HOMES, *_SUBPACKAGES])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {known}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, *_SUBPACKAGES])


# At the end: what it imports may import names of this module.
registration.install()
