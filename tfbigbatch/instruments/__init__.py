"""Instruments: measurements during training that show why and when a large batch loses accuracy. Callbacks for
`fit` of Keras 2 and Keras 3.
"""

from __future__ import annotations

from typing import Any

from tfbigbatch.lazy_names import LazyNames

_HOMES = {
    "EventLog": "event_log",
    "GradientNoiseScale": "gradient_noise_scale",
    "LayerStatistics": "layer_statistics",
    "Sharpness": "sharpness",
    "Spectrum": "spectrum",
    "StepGradients": "step_gradients",
    "update_spectrum": "spectrum",
}

__all__ = [*_HOMES]
_lazy = LazyNames(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    return _lazy.get(name)


def __dir__() -> list[str]:
    return _lazy.names()
