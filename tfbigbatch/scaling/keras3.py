"""DATE as a callback of Keras 3."""

import keras

from tfbigbatch.scaling.date import DATEMixin


class DATE(DATEMixin, keras.callbacks.Callback):
    __doc__ = DATEMixin.__doc__
