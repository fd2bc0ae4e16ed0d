"""TensorFlow operations inside a functional model of Keras 2 (`tf.nn.relu(x)`, `x + y`), as operations of Keras 3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
import tf_keras

from tfbigbatch.export.keras3_layers import NotConvertible

ops = keras.ops


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda input_tensor, axis=None, keepdims=False: function(input_tensor, axis=axis, keepdims=keepdims)


def _reshape(tensor: Any, shape: Any) -> Any:
    if not all(isinstance(size, int) for size in shape):
        raise NotConvertible(f"tf.reshape to {shape}: Keras 3 needs a shape of numbers, and one of these is not.")
    return ops.reshape(tensor, tuple(shape))


def _cast(x: Any, dtype: Any) -> Any:
    return ops.cast(x, tf.as_dtype(dtype).name)


# By TensorFlow's name, with TensorFlow's arguments.
OPERATIONS: dict[str, Callable[..., Any]] = {
    "__operators__.add": lambda x, y: x + y,
    "math.add": lambda x, y: x + y,
    "math.subtract": lambda x, y: x - y,
    "math.multiply": lambda x, y: x * y,
    "math.divide": lambda x, y: x / y,
    "math.truediv": lambda x, y: x / y,
    "math.pow": lambda x, y: x**y,
    "math.negative": lambda x: -x,
    "math.maximum": lambda x, y: ops.maximum(x, y),
    "math.minimum": lambda x, y: ops.minimum(x, y),
    "math.exp": lambda x: ops.exp(x),
    "math.log": lambda x: ops.log(x),
    "math.sqrt": lambda x: ops.sqrt(x),
    "math.square": lambda x: ops.square(x),
    "math.abs": lambda x: ops.abs(x),
    "math.tanh": lambda x: ops.tanh(x),
    "math.sigmoid": lambda x: ops.sigmoid(x),
    "math.l2_normalize": lambda x, axis=None: ops.normalize(x, axis=-1 if axis is None else axis),
    "nn.relu": lambda features: ops.relu(features),
    "nn.gelu": lambda features, approximate=False: ops.gelu(features, approximate=approximate),
    "nn.softmax": lambda logits, axis=-1: ops.softmax(logits, axis=-1 if axis is None else axis),
    "math.reduce_mean": _reduction(ops.mean),
    "math.reduce_sum": _reduction(ops.sum),
    "math.reduce_max": _reduction(ops.max),
    "math.reduce_min": _reduction(ops.min),
    "concat": lambda values, axis: ops.concatenate(values, axis=axis),
    "stack": lambda values, axis=0: ops.stack(values, axis=axis),
    "expand_dims": lambda input, axis: ops.expand_dims(input, axis=axis),
    "squeeze": lambda input, axis=None: ops.squeeze(input, axis=axis),
    "transpose": lambda a, perm=None: ops.transpose(a, axes=perm),
    "linalg.matmul": lambda a, b: ops.matmul(a, b),
    "reshape": _reshape,
    "cast": _cast,
}


def operation(layer: tf_keras.layers.Layer) -> Callable[..., Any] | None:
    """The Keras 3 function of a layer that stands for a TensorFlow operation; None for other layers.

    Raises:
      ValueError: Keras 3's counterpart is not known here; the message names the operation.
    """
    if type(layer).__name__ not in ("TFOpLambda", "SlicingOpLambda") or not _is_of_keras(layer):
        return None
    symbol = layer.symbol or layer.function.__name__
    if symbol not in OPERATIONS:
        raise NotConvertible(
            f"layer {layer.name!r} is the operation tf.{symbol}, for which no operation of Keras 3 is known here. "
            "Use a Keras layer in its place, or export the model as keras2 or saved_model."
        )
    function = OPERATIONS[symbol]
    return lambda *args, name=None, **kwargs: function(*args, **kwargs)


def _is_of_keras(layer: tf_keras.layers.Layer) -> bool:
    return type(layer).__module__.startswith("tf_keras.")
