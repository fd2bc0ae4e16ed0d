"""Learning-rate schedules in optimizer updates: a gradual warm-up, then a decay by name.

`build` makes a whole run's schedule for either Keras, `in_phases` one of several after each other; `GradualWarmup`
is the class of the `tf.keras` in use. Durations such as '40 epochs' become updates through `to_steps`.
"""

import importlib

from tfbigbatch import keras_version

_HOMES = {"DECAYS": "by_name", "build": "by_name", "in_phases": "phased", "to_steps": "durations"}

__all__ = [*_HOMES, "GradualWarmup"]


def __getattr__(name):
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    if name == "GradualWarmup":
        return keras_version.face_of(__name__).GradualWarmup
    if name in keras_version.KERAS:
        return keras_version.face_of(__name__, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
