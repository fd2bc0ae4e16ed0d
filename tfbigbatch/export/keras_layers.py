"""A network of this package in Keras' own layers alone, so that its `.keras` file loads where the package is not."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from tfbigbatch.errors import first_line
from tfbigbatch.export.formats import NotExportable

# Of the largest output, in float32; in half precision the two may round at other places.
_TOLERANCES = {"float32": 1e-4, "mixed_bfloat16": 5e-2, "mixed_float16": 1e-2}
_CHECKED_EXAMPLES = 2


def in_keras_layers(network: keras.Model) -> keras.Model:
    """The network without layers of this package; itself where it has none.

    A layer of this package that extends one of Keras with the same weights becomes that one. Any other has a method
    `in_keras(twin, *args, **kwargs)`, which computes the outputs of `call` by Keras' layers and `keras.ops`; `twin` is
    the `Twins` of its own layers. One matrix that two layers share becomes two equal ones.

    Args:
      network: a built model; functional or sequential, if layers of this package are in it.

    Returns:
      keras.Model with the same inputs, outputs and weights.

    Raises:
      ValueError: a layer cannot be expressed so, which the message names; or the outputs differ on random inputs.
    """
    if not _holds_ours(network):
        return network
    twins = Twins()
    try:
        model = twins.of_model(network)
        twins.set_weights()
    except NotExportable:
        raise
    # Keras' layers check their arguments by many classes of errors.
    except Exception as error:
        raise NotExportable(
            f"model {network.name!r} cannot be rebuilt of Keras' own layers: {first_line(error)} Export it as "
            "saved_model or weights."
        ) from error
    _check_equal(network, model)
    return model


class Twins:
    """For layers of a network their counterparts among Keras' own, each made once.

    Attributes:
      names: of the layers that a name of a counterpart begins with: those around it that are of this package.
    """

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ()
        self._taken: set[str] = set()
        self._made: dict[int, Callable[..., Any]] = {}
        self._weights: list[tuple[keras.layers.Layer, Sequence[Any]]] = []
        # Their ids are keys: they must not be given to others.
        self._kept: list[Any] = []

    def __call__(self, layer: Any, weights: Sequence[Any] | None = None) -> Callable[..., Any]:
        """What is called in place of a layer.

        Args:
          layer: of this package or of Keras; a user's own, or an operation, stays as it is.
          weights: the counterpart's, arrays or variables, where the layer is a new one of Keras; None for the layer's.
        """
        if id(layer) not in self._made:
            self._kept.append(layer)
            self._made[id(layer)] = self._twin(layer, weights)
        return self._made[id(layer)]

    def of_model(self, network: keras.Model) -> keras.Model:
        """A functional or sequential model, rebuilt; its weights are set by `set_weights`."""
        # Of no class of its own.
        functional = keras.Model(*structures(network), name=network.name)
        self._taken.update(layer.name for layer in functional.layers)
        return keras.models.clone_model(
            functional,
            clone_function=lambda layer: layer,
            call_function=lambda layer, *args, **kwargs: self(layer)(*args, **kwargs),
        )

    def set_weights(self) -> None:
        """Gives the counterparts, which are built by now, their weights."""
        for layer, weights in self._weights:
            layer.set_weights([keras.ops.convert_to_numpy(each) for each in weights])

    def _twin(self, layer: Any, weights: Sequence[Any] | None) -> Callable[..., Any]:
        if isinstance(layer, keras.Model) and _holds_ours(layer) and not hasattr(layer, "in_keras"):
            return self._within().of_model(layer)
        if hasattr(layer, "in_keras") and _is_ours(layer):
            return functools.partial(layer.in_keras, self._within(layer.name))
        base = _keras_class(layer) if _is_ours(layer) else type(layer)
        # Of the model itself, not of a layer of this package: its name is its own.
        at_top = not self.names and weights is None
        if at_top and base is type(layer):
            return layer
        config = {**base.get_config(layer), "name": layer.name if at_top else self._name(layer)}
        if "synchronized" in config:
            # Batch statistics over replicas are a way to train, which Keras has on TensorFlow alone.
            config["synchronized"] = False
        twin = base.from_config(config)
        self._weights.append((twin, layer.get_weights() if weights is None else weights))
        return twin

    def _name(self, layer: keras.layers.Layer) -> str:
        name = whole = "_".join([*self.names, layer.name])
        number = 1
        while name in self._taken:
            name, number = f"{whole}_{number}", number + 1
        self._taken.add(name)
        return name

    def _within(self, name: str | None = None) -> Twins:
        """The twins of the layers of a layer; of a nested model, whose names are apart, where `name` is None."""
        inner = Twins()
        inner._made, inner._weights, inner._kept = self._made, self._weights, self._kept
        if name is not None:
            inner.names, inner._taken = (*self.names, name), self._taken
        return inner


def _is_ours(layer: Any) -> bool:
    return type(layer).__module__.split(".")[0] == "tfbigbatch"


def _holds_ours(layer: Any) -> bool:
    return _is_ours(layer) or any(map(_holds_ours, getattr(layer, "layers", ())))


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


def _check_equal(network: keras.Model, rebuilt: keras.Model) -> None:
    inputs = keras.tree.map_structure(_example, structures(network)[0])
    ours, theirs = (
        [np.asarray(keras.ops.convert_to_numpy(each), np.float64) for each in keras.tree.flatten(model(inputs))]
        for model in (network, rebuilt)
    )
    policies = {layer.dtype_policy.name for layer in network.layers}
    tolerance = max(_TOLERANCES.get(policy, _TOLERANCES["float32"]) for policy in policies)
    for number, (one, two) in enumerate(zip(ours, theirs, strict=True)):
        scale = max(float(np.abs(one).max(initial=0.0)), 1.0)
        # Not `>`: a NaN is different too.
        if not float(np.abs(one - two).max(initial=0.0)) <= tolerance * scale:
            raise NotExportable(
                f"model {network.name!r}: output {number} differs by {np.abs(one - two).max():.3g} on random inputs "
                "when it is rebuilt of Keras' own layers. Export it as saved_model or weights."
            )


def _example(tensor: Any) -> np.ndarray:
    """Random values for an input; 1 for whole numbers, which may be tokens, lengths or a mask."""
    random = np.random.default_rng(0)
    shape = [_CHECKED_EXAMPLES, *(4 if size is None else size for size in tensor.shape[1:])]
    if tensor.dtype == "uint8":
        return random.integers(0, 256, shape).astype(np.uint8)
    if keras.backend.is_int_dtype(tensor.dtype):
        return np.ones(shape, tensor.dtype)
    return random.normal(size=shape).astype(tensor.dtype)
