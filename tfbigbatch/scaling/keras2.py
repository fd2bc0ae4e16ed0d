"""DATE as a callback of tf_keras (Keras 2)."""

from __future__ import annotations

import tf_keras

from tfbigbatch.scaling.date import DATEMixin


class DATE(DATEMixin, tf_keras.callbacks.Callback):
    __doc__ = DATEMixin.__doc__
