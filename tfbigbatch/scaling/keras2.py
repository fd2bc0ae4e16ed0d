"""DATE and RampLog as callbacks of tf_keras (Keras 2)."""

from __future__ import annotations

import tf_keras

from tfbigbatch.scaling.date import DATEMixin
from tfbigbatch.scaling.ramp_log import RampLogMixin


class DATE(DATEMixin, tf_keras.callbacks.Callback):
    __doc__ = DATEMixin.__doc__


class RampLog(RampLogMixin, tf_keras.callbacks.Callback):
    __doc__ = RampLogMixin.__doc__
