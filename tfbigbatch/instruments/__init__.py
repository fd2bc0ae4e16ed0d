"""Instruments: what tells why and when a large batch loses accuracy.

The callbacks here are those of the `tf.keras` in use; `instruments.tf_keras` and `instruments.keras3`
have those of one Keras each.
"""

import importlib

from tfbigbatch import keras_version

_CALLBACKS = ("GradientNoiseScale", "InterpolationPlot", "LayerStatistics", "Sharpness")
_HOMES = {
    "EventLog": "event_log",
    "StepGradients": "step_gradients",
    "losses_along": "loss_surface",
    "losses_around": "loss_surface",
}
_MODULES = ("keras3", "tf_keras")

__all__ = [*_CALLBACKS, *_HOMES]


def __getattr__(name):
    if name in _CALLBACKS:
        return getattr(keras_version.face_of(__name__), name)
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join([*__all__, *_MODULES])}")


def __dir__():
    return sorted([*globals(), *__all__, *_MODULES])
