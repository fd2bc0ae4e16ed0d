"""ExactResume as a callback of Keras 3."""

from __future__ import annotations

import keras

from tfbigbatch.callbacks.exact_resume import ExactResumeMixin


class ExactResume(ExactResumeMixin, keras.callbacks.Callback):
    __doc__ = ExactResumeMixin.__doc__
