"""The instruments as callbacks of Keras 3."""

from __future__ import annotations

import keras

from tfbigbatch.instruments.gradient_noise_scale import GradientNoiseScaleMixin
from tfbigbatch.instruments.layer_statistics import LayerStatisticsMixin
from tfbigbatch.instruments.sharpness import SharpnessMixin

__all__ = ["GradientNoiseScale", "LayerStatistics", "Sharpness"]


class GradientNoiseScale(GradientNoiseScaleMixin, keras.callbacks.Callback):
    __doc__ = GradientNoiseScaleMixin.__doc__


class LayerStatistics(LayerStatisticsMixin, keras.callbacks.Callback):
    __doc__ = LayerStatisticsMixin.__doc__


class Sharpness(SharpnessMixin, keras.callbacks.Callback):
    __doc__ = SharpnessMixin.__doc__
