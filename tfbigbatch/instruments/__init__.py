"""Instruments: measurements during training that show why and when a large batch loses accuracy.

The callbacks here are those of the `tf.keras` in use; `instruments.keras2` and `instruments.keras3` have those of one
Keras each.
"""

from __future__ import annotations

from typing import Any

from tfbigbatch.lazy_names import LazyNames

_CALLBACKS = ("GradientNoiseScale", "LayerStatistics", "Sharpness")
_HOMES = {
    "EventLog": "event_log",
    "Spectrum": "spectrum",
    "StepGradients": "step_gradients",
    "update_spectrum": "spectrum",
}

__all__ = [*_CALLBACKS, *_HOMES]
_lazy = LazyNames(__name__, _HOMES, _CALLBACKS)


def __getattr__(name: str) -> Any:
    return _lazy.get(name)


def __dir__() -> list[str]:
    return _lazy.names()
