"""ExactResume as a callback of tf_keras (Keras 2)."""

from __future__ import annotations

import tf_keras

from tfbigbatch.callbacks.exact_resume import ExactResumeMixin


class ExactResume(ExactResumeMixin, tf_keras.callbacks.Callback):
    __doc__ = ExactResumeMixin.__doc__
