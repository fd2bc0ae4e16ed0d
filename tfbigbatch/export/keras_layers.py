"""A network of this package in Keras' own layers alone, so that its `.keras` file loads where the package is not."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras

from tfbigbatch.errors import first_line
from tfbigbatch.export.formats import NotExportable


def in_keras_layers(network: keras.Model) -> keras.Model:
    """The network without layers of this package; itself where it has none. Models within it stay as they are.

    A layer of this package that extends one of Keras with the same weights becomes that one. Any other has a method
    `in_keras(twin, *args, **kwargs)`, which computes the outputs of `call` by Keras' layers and `keras.ops`; `twin` is
    the `Twins` of its own layers. One matrix that two layers share becomes two equal ones.

    Args:
      network: a built model; functional or sequential, if layers of this package are in it.

    Returns:
      keras.Model with the same inputs, outputs and weights.

    Raises:
      ValueError: a layer cannot be expressed so, which the message names.
    """
    if not any(map(_is_ours, [network, *network.layers])):
        return network
    twins = Twins()
    try:
        model = keras.models.clone_model(
            # Of no class of its own.
            keras.Model(*structures(network), name=network.name),
            clone_function=lambda layer: layer,
            call_function=lambda layer, *args, **kwargs: twins(layer)(*args, **kwargs),
        )
        twins.set_weights()
    except NotExportable:
        raise
    # Keras' layers check their arguments by many classes of errors.
    except Exception as error:
        raise NotExportable(
            f"model {network.name!r} cannot be rebuilt of Keras' own layers: {first_line(error)} Export it as "
            "saved_model or weights."
        ) from error
    return model


class Twins:
    """For layers of a network their counterparts among Keras' own, each made once, and named by where it was."""

    def __init__(self) -> None:
        # Names of the layers of this package that the next one is within.
        self._around: tuple[str, ...] = ()
        # By the layer's id, with the layer, so that no other gets it; a new one of Keras by where it is.
        self._made: dict[Any, tuple[Any, Callable[..., Any]]] = {}
        self._weights: list[tuple[keras.layers.Layer, Sequence[Any]]] = []

    def __call__(self, layer: Any, weights: Sequence[Any] | None = None) -> Callable[..., Any]:
        """What is called in place of a layer.

        Args:
          layer: of this package or of Keras; a user's own, or an operation, stays as it is.
          weights: the counterpart's, arrays or variables, where the layer is a new one of Keras; None for the layer's.
        """
        key = id(layer) if weights is None else (*self._around, layer.name)
        if key not in self._made:
            self._made[key] = layer, self._twin(layer, weights)
        return self._made[key][1]

    def set_weights(self) -> None:
        """Gives the counterparts, which are built by now, their weights."""
        for layer, weights in self._weights:
            layer.set_weights([keras.ops.convert_to_numpy(each) for each in weights])

    def _twin(self, layer: Any, weights: Sequence[Any] | None) -> Callable[..., Any]:
        if _is_ours(layer) and hasattr(layer, "in_keras"):
            inner = copy.copy(self)
            inner._around = (*self._around, layer.name)
            return functools.partial(layer.in_keras, inner)
        if not self._around and not _is_ours(layer):
            return layer
        base = _keras_class(layer)
        config = {**base.get_config(layer), "name": "_".join([*self._around, layer.name])}
        if "synchronized" in config:
            # Batch statistics over replicas are a way to train, which Keras has on TensorFlow alone.
            config["synchronized"] = False
        twin = base.from_config(config)
        self._weights.append((twin, layer.get_weights() if weights is None else weights))
        return twin


def _is_ours(layer: Any) -> bool:
    return type(layer).__module__.split(".")[0] == "tfbigbatch"


def _keras_class(layer: Any) -> Any:
    for cls in type(layer).__mro__:
        if cls is not keras.layers.Layer and getattr(keras.layers, cls.__name__, None) is cls:
            return cls
    raise NotExportable(
        f"layer {layer.name!r} ({type(layer).__name__}) has no counterpart among Keras' own layers. Export the network "
        "as saved_model or weights."
    )


def structures(network: keras.Model) -> tuple[Any, Any]:
    """The inputs and the outputs of a functional or sequential model: Keras tensors in their structures.

    Raises:
      ValueError: the model is subclassed, or not built.
    """
    if isinstance(network, keras.Sequential) and network.built:
        return network.inputs[0], network.outputs[0]
    if not getattr(network, "inputs", None):
        raise NotExportable(
            f"model {network.name!r} ({type(network).__name__}) is not a functional model: the shapes of its inputs "
            "and the connections of its layers are not known. Build it with keras.Model(inputs, outputs)."
        )
    return network.input, network.output
