"""The layers of Keras 3 for those of Keras 2 (tf_keras)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tf_keras

from tfbigbatch.errors import InputError

Call = Callable[..., Any]
"""Takes Keras 3's tensors as a layer of Keras 2 takes its own, and gives the outputs."""


class NotConvertible(InputError):
    """A model or a layer that Keras 3 cannot express; the message names it."""


# Arguments that Keras 3 lacks and that change no result.
_WITHOUT_EFFECT = {
    "batch_input_shape",
    "implementation",
    "input_length",
    "fused",
    "query_shape",
    "key_shape",
    "value_shape",
    "rng_type",
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
            f"layer {layer.name!r} ({name}): Keras 3 refuses its arguments: {str(error).strip().splitlines()[0][:200]}"
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
    if isinstance(layer, (tf_keras.layers.RNN, tf_keras.layers.Bidirectional)):
        return _with_states(twin)
    return lambda *args, **kwargs: twin(*args, **_set(kwargs))


def _with_states(twin: Any) -> Call:
    def call(inputs: Any, *args: Any, **kwargs: Any) -> Any:
        # Keras 2 puts the initial states into a list with the inputs.
        if isinstance(inputs, (list, tuple)):
            inputs, states = inputs[0], list(inputs[1:])
            return twin(inputs, *args, initial_state=states, **_set(kwargs))
        return twin(inputs, *args, **_set(kwargs))

    return call


def _set(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call without those that say nothing, which Keras 3 may not know."""
    return {name: value for name, value in kwargs.items() if value is not None}


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
        values = keras.ops.cast(inputs, "float32")
        channels, radius = inputs.shape[-1], layer.n // 2
        squares = keras.ops.pad(keras.ops.square(values), [[0, 0]] * 3 + [[radius, radius]])
        # The window slides over the channels: an average of n neighbours, times n.
        rows = keras.ops.reshape(squares, (-1, channels + 2 * radius, 1))
        sums = (2 * radius + 1) * keras.ops.average_pool(rows, 2 * radius + 1, 1, "valid")
        sums = keras.ops.reshape(sums, (-1, *inputs.shape[1:]))
        return keras.ops.cast(values / keras.ops.power(layer.k + layer.alpha * sums, layer.beta), inputs.dtype)

    return call


CONVERTERS: dict[str, Callable[[Any], Call]] = {
    "LocalResponseNormalization": _local_response_normalization,
    "Normalization": _normalization,
}
