"""LARS, LAMB and Adasum for Keras. `tfbigbatch.LAMB` is the usual way in; `get` makes any by name.

`tfbigbatch.optimizers.tf_keras` and `tfbigbatch.optimizers.keras3` are the same optimizers for one
Keras each; `LARS` and `LAMB` here are those of the `tf.keras` in use.
"""

import importlib

_HOMES = {
    "NORM_AND_BIAS": "exclusions",
    "accumulate_gradients": "accumulation",
    "get": "registry",
    "names": "registry",
    "register": "registry",
    "restore_from_saved_model": "checkpointing",
}
_OPTIMIZERS = ("Adasum", "LAMB", "LARS")
_MODULES = ("keras3", "tf_keras")

__all__ = [*_HOMES, *_OPTIMIZERS]


def __getattr__(name):
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    if name in _OPTIMIZERS:
        return getattr(importlib.import_module(f"{__name__}.registry").face(), name)
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join([*__all__, *_MODULES])}")


def __dir__():
    return sorted([*globals(), *__all__, *_MODULES])
