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

_HOMES = {
    **dict.fromkeys(("Adasum", "LAMB", "LARS", "LocalSteps", "Muon", "Shampoo"), "optimizers"),
    **dict.fromkeys(("BatchRamp", "Recipe"), "scaling"),
    "load_run": "runs.load",
    "advise": "advice.model",
    "check": "instruments.time_constants",
}
_SUBPACKAGES = ("callbacks", "export", "instruments", "keras2", "optimizers", "scaling", "schedules")


def __getattr__(name: str) -> Any:
    # As `lazy_names`, which would be one more module to import first.
    if name in _HOMES:
        return getattr(importlib.import_module(f"tfbigbatch.{_HOMES[name]}"), name)
    if name in _SUBPACKAGES:
        return importlib.import_module(f"tfbigbatch.{name}")
    known = ", ".join([*sorted(_HOMES), *_SUBPACKAGES])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {known}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, *_SUBPACKAGES])


# At the end: what it imports may import names of this module.
registration.install()
