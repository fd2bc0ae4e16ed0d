"""Converts a functional model of Keras 2 (tf_keras) to Keras 3, layer by layer, with its weights.

Own code: we found no library for it. Keras 3 reads a `.keras` file of Keras 2 only where every layer's config and call
happen to be the same in both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tf_keras

from tfbigbatch.errors import first_line
from tfbigbatch.export import keras3_networks
from tfbigbatch.export.keras3_layers import CONVERTERS, NotConvertible, operation, standard_layer
from tfbigbatch.models.rebuilt import RebuiltModel

# Of the largest output, in float32; in half precision the two round at other places.
_TOLERANCES = {"float32": 1e-4, "mixed_bfloat16": 5e-2, "mixed_float16": 1e-2}
_CHECKED_EXAMPLES = 2


def convert(network: tf_keras.Model, *, check: bool = True) -> keras.Model:
    """The same model for Keras 3.

    Args:
      network: a functional or sequential model of tf_keras, which may contain others.
      check: whether the outputs of both are compared, on random inputs.

    Returns:
      keras.Model, with inputs and outputs of the same structure and names.

    Raises:
      ValueError: a layer has no counterpart in Keras 3, which the message names; or the outputs differ.
    """
    if not getattr(network, "_is_graph_network", False):
        raise NotConvertible(
            f"model {network.name!r} ({type(network).__name__}) is not a functional model: Keras 3 cannot be told its "
            "layers and how they are connected. Build it with tf_keras.Model(inputs, outputs)."
        )
    builder, arguments = network.built_by if isinstance(network, RebuiltModel) else ("", {})
    whole = keras3_networks.CONVERTERS.get(builder)
    converted = whole(network, **arguments) if whole else _Conversion(network).model()
    if check:
        _check_equal(network, converted)
    return converted


class _Always:
    """A list for `Node.map_arguments` that gives the same tensor any number of times."""

    def __init__(self, tensor: Any) -> None:
        self.pop = lambda: tensor


class _Conversion:
    """Calls the twins of a functional model's layers in the order and with the arguments of its own."""

    def __init__(self, network: tf_keras.Model) -> None:
        self._network = network
        self._twins: dict[int, Callable[..., Any]] = {}
        self._weights: list[tuple[tf_keras.layers.Layer, Any]] = []

    def model(self) -> keras.Model:
        network = self._network
        inputs = [_input(tensor) for tensor in network.inputs]
        known = {str(id(tensor)): _Always(twin) for tensor, twin in zip(network.inputs, inputs)}
        # Private in tf_keras, and the only access to the calls: the model's own `call` walks the nodes so.
        for depth in sorted(network._nodes_by_depth, reverse=True):
            for node in network._nodes_by_depth[depth]:
                if not node.is_input:
                    args, kwargs = node.map_arguments(known)
                    outputs = self._call(node.layer, args, kwargs)
                    known.update(zip(node.flat_output_ids, map(_Always, tf.nest.flatten(outputs))))
        outputs = [known[str(id(tensor))].pop() for tensor in network.outputs]
        converted = keras.Model(
            tf.nest.pack_sequence_as(network._nested_inputs, inputs),
            tf.nest.pack_sequence_as(network._nested_outputs, outputs),
            name=network.name,
        )
        for layer, twin in self._weights:
            _copy_weights(layer, twin)
        return converted

    def _call(self, layer: tf_keras.layers.Layer, args: Any, kwargs: Mapping[str, Any]) -> Any:
        if id(layer) not in self._twins:
            self._twins[id(layer)] = self._twin(layer)
        try:
            return self._twins[id(layer)](*args, **kwargs)
        except NotConvertible:
            raise
        except (TypeError, ValueError) as error:
            raise NotConvertible(
                f"layer {layer.name!r} ({type(layer).__name__}): Keras 3 refuses its call: {first_line(error)}"
            ) from None

    def _twin(self, layer: tf_keras.layers.Layer) -> Callable[..., Any]:
        if isinstance(layer, tf_keras.Model):
            return convert(layer, check=False)
        found = operation(layer)
        if found is not None:
            return found
        # A user's layer may have the name of another.
        is_known = type(layer).__module__.split(".")[0] in ("tf_keras", "tfbigbatch")
        converter = CONVERTERS.get(type(layer).__name__) if is_known else None
        if converter is not None:
            return converter(layer)
        twin, call = standard_layer(layer)
        self._weights.append((layer, twin))
        return call


def _input(tensor: Any) -> Any:
    shape, name = tensor.shape, tensor._keras_history.layer.name
    return keras.Input(batch_shape=tuple(shape), dtype=tensor.dtype.name, name=name)


def _copy_weights(layer: tf_keras.layers.Layer, twin: Any) -> None:
    try:
        twin.set_weights(layer.get_weights())
    except ValueError as error:
        raise NotConvertible(
            f"layer {layer.name!r} ({type(layer).__name__}): Keras 3 has other weights for it: {first_line(error)}"
        ) from None


def _check_equal(network: tf_keras.Model, converted: keras.Model) -> None:
    inputs = tf.nest.map_structure(_example, network.input)
    ours, theirs = (
        [np.asarray(keras.ops.convert_to_numpy(each), np.float64) for each in tf.nest.flatten(model(inputs))]
        for model in (network, converted)
    )
    policies = {layer._dtype_policy.name for layer in network.submodules if isinstance(layer, tf_keras.layers.Layer)}
    tolerance = max(_TOLERANCES.get(policy, _TOLERANCES["float32"]) for policy in policies)
    for number, (one, two) in enumerate(zip(ours, theirs)):
        scale = max(float(np.abs(one).max(initial=0.0)), 1.0)
        # Not `>`: a NaN is different too.
        if not float(np.abs(one - two).max(initial=0.0)) <= tolerance * scale:
            raise NotConvertible(
                f"model {network.name!r}: output {number} of the converted model differs by "
                f"{np.abs(one - two).max():.3g} on random inputs. Export it as keras2 or saved_model."
            )


def _example(tensor: Any) -> np.ndarray:
    """Random values for an input; small ones for whole numbers, which may be tokens or a mask."""
    random = np.random.default_rng(0)
    shape = [_CHECKED_EXAMPLES, *(4 if size is None else size for size in tensor.shape[1:])]
    if tensor.dtype == tf.uint8:
        return random.integers(0, 256, shape).astype(np.uint8)
    if tensor.dtype.is_integer:
        return np.ones(shape, tensor.dtype.as_numpy_dtype)
    return random.normal(size=shape).astype(tensor.dtype.as_numpy_dtype)
