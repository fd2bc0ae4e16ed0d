"""Instruments: measurements during training that show why and when a large batch loses accuracy. Callbacks for
`fit` of Keras 2 and Keras 3.
"""

from __future__ import annotations

from tfbigbatch import lazy_names

_HOMES = {
    "GradientNoiseScale": "gradient_noise_scale",
    "LayerStatistics": "layer_statistics",
    "Sharpness": "sharpness",
    "Spectrum": "spectrum",
    "StepGradients": "step_gradients",
    "update_spectrum": "spectrum",
}

__all__ = [*_HOMES]
__getattr__, __dir__ = lazy_names.of(__name__, _HOMES)
