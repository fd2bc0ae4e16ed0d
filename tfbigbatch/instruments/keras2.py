"""The instruments as callbacks of tf_keras (Keras 2)."""

from __future__ import annotations

import tf_keras

from tfbigbatch.instruments.gradient_noise_scale import GradientNoiseScaleMixin
from tfbigbatch.instruments.layer_statistics import LayerStatisticsMixin
from tfbigbatch.instruments.sharpness import SharpnessMixin

__all__ = ["GradientNoiseScale", "LayerStatistics", "Sharpness"]


class GradientNoiseScale(GradientNoiseScaleMixin, tf_keras.callbacks.Callback):
    __doc__ = GradientNoiseScaleMixin.__doc__


class LayerStatistics(LayerStatisticsMixin, tf_keras.callbacks.Callback):
    __doc__ = LayerStatisticsMixin.__doc__


class Sharpness(SharpnessMixin, tf_keras.callbacks.Callback):
    __doc__ = SharpnessMixin.__doc__
