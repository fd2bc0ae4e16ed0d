"""LARS, LAMB, Muon, Shampoo and AdamW for Keras 3: their classes.

On TensorFlow `keras3_tensorflow` has what they share: kernels, strategies, and what wraps an optimizer. On JAX and
PyTorch `keras3_portable` has it; Adasum and LocalSteps are TensorFlow's, and say so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import keras

from tfbigbatch.optimizers import adamw, lamb, lars, muon, shampoo

if TYPE_CHECKING or keras.config.backend() == "tensorflow":
    from tfbigbatch.optimizers.keras3_tensorflow import Adasum, LayerwiseOptimizer, LocalSteps, LossScaleOptimizer
else:
    from tfbigbatch.optimizers.keras3_portable import (
        Adasum,
        LayerwiseOptimizer,
        LocalSteps,
        LossScaleOptimizer,
    )

__all__ = ["AdamW", "Adasum", "LAMB", "LARS", "LocalSteps", "LossScaleOptimizer", "Muon", "Shampoo"]

_registered = keras.saving.register_keras_serializable


@_registered("tfbigbatch")
class LARS(lars.Optimizer, LayerwiseOptimizer):
    __doc__ = lars.DOCSTRING


@_registered("tfbigbatch")
class LAMB(lamb.Optimizer, LayerwiseOptimizer):
    __doc__ = lamb.DOCSTRING


@_registered("tfbigbatch")
class AdamW(adamw.Optimizer, LayerwiseOptimizer):
    __doc__ = adamw.DOCSTRING


@_registered("tfbigbatch")
class Muon(muon.Optimizer, LayerwiseOptimizer):
    __doc__ = muon.DOCSTRING


@_registered("tfbigbatch")
class Shampoo(shampoo.Optimizer, LayerwiseOptimizer):
    __doc__ = shampoo.DOCSTRING
