"""DATE and RampLog as callbacks of Keras 3."""

from __future__ import annotations

import keras

from tfbigbatch.scaling.date import DATEMixin
from tfbigbatch.scaling.ramp_log import RampLogMixin


class DATE(DATEMixin, keras.callbacks.Callback):
    __doc__ = DATEMixin.__doc__


class RampLog(RampLogMixin, keras.callbacks.Callback):
    __doc__ = RampLogMixin.__doc__
