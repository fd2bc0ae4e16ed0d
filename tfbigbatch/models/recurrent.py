"""The shared parts of the recurrent models: the check of their sizes, uniform initialisation, and Keras' LSTM."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from tfbigbatch.errors import InputError


def check_sizes(*, dropout: float, initial_scale: float, **sizes: int) -> None:
    """Raises ValueError for a size below 1, a dropout rate outside [0, 1), or an initial_scale of 0 or less."""
    if min(sizes.values()) < 1 or not 0.0 <= dropout < 1.0 or initial_scale <= 0:
        given = ", ".join(f"{name}={size}" for name, size in sizes.items())
        raise InputError(
            f"{given}, dropout={dropout}, initial_scale={initial_scale}: expected sizes of 1 or more, "
            "0 <= dropout < 1, and initial_scale above 0."
        )


def uniform(initial_scale: float) -> tf_keras.initializers.Initializer:
    """Uniform in [-initial_scale, initial_scale]; each weight needs its own, which draws other numbers."""
    return tf_keras.initializers.RandomUniform(-initial_scale, initial_scale)


def lstm(units: int, **options: Any) -> tf_keras.layers.LSTM:
    """Keras' LSTM; in float32 on a machine without a GPU it is traced in half the time, to the same bits.

    Keras traces each LSTM twice, forward and backward: for cuDNN, and for all other devices. TensorFlow chooses when it
    runs the graph. Without a GPU there is nothing to choose. Under mixed precision the other trace would sum a kernel's
    gradients over the time steps in another precision, so that it stays as it is.

    Args:
      units, options: the arguments of `tf_keras.layers.LSTM`.
    """
    layer = tf_keras.layers.LSTM(units, **options)
    if layer.compute_dtype == layer.variable_dtype and not tf.config.list_physical_devices("GPU"):
        layer._could_use_gpu_kernel = False
        # The layer has no control flow on tensors, and AutoGraph takes as long to see it as the trace does.
        layer.call = tf.autograph.experimental.do_not_convert(layer.call)
    return layer
