"""DATE as a callback of Keras 3."""

from __future__ import annotations

import keras

from tfbigbatch.scaling.date import DATEMixin


class DATE(DATEMixin, keras.callbacks.Callback):
    __doc__ = DATEMixin.__doc__
