"""Adasum for `tf_keras` (Keras 2)."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from tfbigbatch.optimizers import arguments, options
from tfbigbatch.optimizers.adasum import optimizer as adasum
from tfbigbatch.optimizers.wrapper_keras2 import Wrapper


@tf_keras.saving.register_keras_serializable(package="tfbigbatch")
class Adasum(adasum.AdasumMixin, Wrapper):
    __doc__ = adasum.AdasumMixin.__doc__

    @options.checked(arguments.ADASUM, ["optimizer", *arguments.ADASUM])
    @tf.__internal__.tracking.no_automatic_dependency_tracking
    def __init__(self, optimizer: Any, combine: str | None = None, group_size: int = 1) -> None:
        super().__init__(optimizer)
        self._set_adasum(optimizer, combine, group_size)
