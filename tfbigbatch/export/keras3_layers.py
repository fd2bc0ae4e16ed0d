"""The layers of Keras 3 for those of Keras 2 (tf_keras), and for its layers of TensorFlow's operations, as `x + y`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tf_keras

from tfbigbatch.errors import InputError, first_line

ops = keras.ops
Call = Callable[..., Any]
"""Takes Keras 3's tensors as a layer of Keras 2 takes its own, and gives the outputs."""


class NotConvertible(InputError):
    """A model or a layer that Keras 3 cannot express; the message names it."""


# Arguments that Keras 3 lacks and that change no result.
_WITHOUT_EFFECT = {
    *("batch_input_shape", "implementation", "input_length", "fused"),
    *("query_shape", "key_shape", "value_shape", "rng_type"),
}
_OF_EVERY_LAYER = {"name", "dtype", "trainable"}


def standard_layer(layer: tf_keras.layers.Layer) -> tuple[Any, Call]:
    """(layer of Keras 3, how it is called) for a layer of tf_keras that Keras 3 has under the same name.

    Raises:
      ValueError: it is not one, or has an argument that Keras 3 lacks.
    """
    name = type(layer).__name__
    cls = getattr(keras.layers, name, None)
    if cls is None or type(layer).__module__.split(".")[0] != "tf_keras" or name in _NOT_THE_SAME:
        raise NotConvertible(
            f"layer {layer.name!r} ({type(layer).__module__}.{name}) has no counterpart in Keras 3 that this package "
            "knows. Export the model as keras2 or saved_model, or build it of standard layers."
        )
    arguments = _arguments(layer, cls)
    try:
        twin = cls(**arguments)
    except (TypeError, ValueError) as error:
        raise NotConvertible(
            f"layer {layer.name!r} ({name}): Keras 3 refuses its arguments: {first_line(error)[:200]}"
        ) from None
    return twin, _call_of(layer, twin)


# They have the same name, but hold code, tables or cells that are not converted.
_NOT_THE_SAME = {"Lambda", "RNN", "StringLookup", "IntegerLookup", "TextVectorization", "Hashing", "Discretization"}


def _arguments(layer: tf_keras.layers.Layer, cls: type) -> dict[str, Any]:
    known = _OF_EVERY_LAYER | set(inspect.signature(cls).parameters)
    arguments = {}
    for field, value in layer.get_config().items():
        if field in known:
            arguments[field] = _value(layer, field, value)
        # Switches of Keras 2 that are off.
        elif value not in (None, False) and field not in _WITHOUT_EFFECT:
            raise NotConvertible(
                f"layer {layer.name!r} ({type(layer).__name__}): Keras 3 has no argument {field!r}, which is {value!r}."
            )
    return {**arguments, "dtype": layer._dtype_policy.name}


def _value(layer: tf_keras.layers.Layer, field: str, value: Any) -> Any:
    """An argument as Keras 3 takes it."""
    if field in ("layer", "backward_layer") and value is not None:
        inner = layer.layer if field == "layer" else layer.backward_layer
        return standard_layer(inner)[0]
    if isinstance(value, dict) and "class_name" in value:
        if field.endswith("activation"):
            raise NotConvertible(
                f"layer {layer.name!r} ({type(layer).__name__}): its {field} is a function of your own; Keras 3 can be "
                "told its own by name only. Make it a layer of its own, of Keras operations."
            )
        return _object(field, value)
    if isinstance(value, np.ndarray):
        return value.tolist()
    # Keras 2 writes the one axis of a batch normalisation as a list.
    if field == "axis" and type(layer).__name__.endswith("BatchNormalization"):
        return list(value)[0] if not isinstance(value, int) else value
    return tuple(value) if isinstance(value, (list, tuple)) else value


def _object(field: str, value: dict[str, Any]) -> Any:
    """An initializer, regularizer or constraint; None, the argument's default, for a user's own."""
    try:
        return keras.saving.deserialize_keras_object(value)
    except Exception:
        return "zeros" if field.endswith("initializer") else None


def _call_of(layer: tf_keras.layers.Layer, twin: Any) -> Call:
    has_states = isinstance(layer, (tf_keras.layers.RNN, tf_keras.layers.Bidirectional))

    def call(*args: Any, **kwargs: Any) -> Any:
        # Arguments that say nothing may be unknown to Keras 3.
        given = {name: value for name, value in kwargs.items() if value is not None}
        # Keras 2 puts the initial states into a list with the inputs.
        if has_states and isinstance(args[0], (list, tuple)):
            (inputs, *states), *others = args
            args, given["initial_state"] = (inputs, *others), states
        return twin(*args, **given)

    return call


def _normalization(layer: tf_keras.layers.Layer) -> Call:
    """Keras 3's layer with the measured means and variances as constants."""
    mean, variance = (np.reshape(np.asarray(each), -1).tolist() for each in (layer.mean, layer.variance))
    config = layer.get_config()
    return keras.layers.Normalization(
        axis=tuple(config["axis"]) if isinstance(config["axis"], (list, tuple)) else config["axis"],
        mean=mean if len(mean) > 1 else mean[0],
        variance=variance if len(variance) > 1 else variance[0],
        invert=config.get("invert", False),
        name=layer.name,
        dtype=layer._dtype_policy.name,
    )


def _local_response_normalization(layer: Any) -> Call:
    """Local response normalization by operations of Keras 3: the sum over channels is a product with a band of ones."""

    def call(inputs: Any) -> Any:
        values = ops.cast(inputs, "float32")
        channels, radius = inputs.shape[-1], layer.n // 2
        squares = ops.pad(ops.square(values), [[0, 0]] * 3 + [[radius, radius]])
        # The window slides over the channels: an average of n neighbours, times n.
        rows = ops.reshape(squares, (-1, channels + 2 * radius, 1))
        sums = (2 * radius + 1) * ops.average_pool(rows, 2 * radius + 1, 1, "valid")
        sums = ops.reshape(sums, (-1, *inputs.shape[1:]))
        return ops.cast(values / ops.power(layer.k + layer.alpha * sums, layer.beta), inputs.dtype)

    return call


CONVERTERS: dict[str, Callable[[Any], Call]] = {
    "LocalResponseNormalization": _local_response_normalization,
    "Normalization": _normalization,
}


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda input_tensor, axis=None, keepdims=False: function(input_tensor, axis=axis, keepdims=keepdims)


def _reshape(tensor: Any, shape: Any) -> Any:
    if not all(isinstance(size, int) for size in shape):
        raise NotConvertible(f"tf.reshape to {shape}: Keras 3 needs a shape of numbers, and one of these is not.")
    return ops.reshape(tensor, tuple(shape))


def _cast(x: Any, dtype: Any) -> Any:
    return ops.cast(x, tf.as_dtype(dtype).name)


# By TensorFlow's name, with TensorFlow's arguments.
_OPERATIONS: dict[str, Call] = {
    **{f"math.{name}": getattr(ops, name) for name in ("exp", "log", "sqrt", "square", "abs", "tanh", "sigmoid")},
    **{f"math.reduce_{name}": _reduction(getattr(ops, name)) for name in ("mean", "sum", "max", "min")},
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
    "math.l2_normalize": lambda x, axis=None: ops.normalize(x, axis=-1 if axis is None else axis),
    "nn.relu": lambda features: ops.relu(features),
    "nn.gelu": lambda features, approximate=False: ops.gelu(features, approximate=approximate),
    "nn.softmax": lambda logits, axis=-1: ops.softmax(logits, axis=-1 if axis is None else axis),
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
    is_operation = type(layer).__name__ in ("TFOpLambda", "SlicingOpLambda")
    if not is_operation or not type(layer).__module__.startswith("tf_keras."):
        return None
    symbol = layer.symbol or layer.function.__name__
    if symbol not in _OPERATIONS:
        raise NotConvertible(
            f"layer {layer.name!r} is the operation tf.{symbol}, for which no operation of Keras 3 is known here. "
            "Use a Keras layer in its place, or export the model as keras2 or saved_model."
        )
    function = _OPERATIONS[symbol]
    return lambda *args, name=None, **kwargs: function(*args, **kwargs)
