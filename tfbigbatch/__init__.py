"""tfbigbatch: large-batch training for Keras and TensorFlow.

`tfbigbatch.LARS`, `LAMB`, `Muon`, `Shampoo` and `AdamW` are optimizers for `model.compile` of the `tf.keras` in use.
Names are imported on first use, so that `import tfbigbatch` costs next to nothing by itself.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tfbigbatch import registration

if TYPE_CHECKING:
    # For editors and type checkers: the classes of the other Keras have the same arguments.
    from tfbigbatch.instruments.time_constants import check
    from tfbigbatch.optimizers.keras3 import LAMB, LARS, AdamW, Adasum, LocalSteps, Muon, Shampoo
    from tfbigbatch.scaling.batch_ramp import BatchRamp
    from tfbigbatch.scaling.recipe import Recipe

__version__ = "0.3.0"

# Spelt out, so that type checkers know the names as public.
__all__ = [
    "AdamW",
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
    "check",
    "load_run",
    "tune",
]

# Of `tfbigbatch.keras2` or `tfbigbatch.optimizers.keras3`.
_OPTIMIZERS = ("AdamW", "Adasum", "LAMB", "LARS", "LocalSteps", "Muon", "Shampoo")
_HOMES = {
    "BatchRamp": "scaling.batch_ramp",
    "Recipe": "scaling.recipe",
    "load_run": "run_directory.load",
    "advise": "tuning.model",
    "check": "instruments.time_constants",
    "tune": "tuning.tune",
}
_SUBPACKAGES = ("callbacks", "export", "instruments", "keras2", "optimizers", "schedules")


def __getattr__(name: str) -> Any:
    # As `lazy_names`, which would be one more module to import first.
    if name in _OPTIMIZERS:
        # With what it imports, which a first import of the package need not wait for.
        return getattr(importlib.import_module("tfbigbatch.keras_version").module_for("tfbigbatch.optimizers"), name)
    if name in _HOMES:
        return getattr(importlib.import_module(f"tfbigbatch.{_HOMES[name]}"), name)
    if name in _SUBPACKAGES:
        return importlib.import_module(f"tfbigbatch.{name}")
    known = ", ".join([*sorted([*_HOMES, *_OPTIMIZERS]), *_SUBPACKAGES])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {known}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, *_OPTIMIZERS, *_SUBPACKAGES])


# At the end: what it imports may import names of this module.
registration.install()
