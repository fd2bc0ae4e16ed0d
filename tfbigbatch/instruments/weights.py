"""A model's weights as a point in weight space: reading them, and directions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfbigbatch.errors import InputError
from tfbigbatch.instruments.probe.model import tensor_variable, untouched
from tfbigbatch.utils.home import expanded

_FILES = (".weights.h5", ".h5", ".keras")


def floating_variables(model: Any) -> list[tf.Variable]:
    """The model's floating-point weights as tf.Variables, trainable or not."""
    variables = [tensor_variable(variable) for variable in model.weights]
    return [variable for variable in variables if variable.dtype.is_floating]


def point_of(model: Any, source: Any = None) -> list[np.ndarray]:
    """The values of `floating_variables(model)`, as a list of NumPy arrays.

    Args:
      source: None for the current weights; a list from `model.get_weights()`; or the path of a weights file of this
        model's Keras: .weights.h5, .h5 or .keras.

    Raises:
      ValueError: the source is of another model, or of another kind.
    """
    if source is None:
        return [variable.numpy() for variable in floating_variables(model)]
    if isinstance(source, (str, os.PathLike)):
        return _point_of_file(model, expanded(source))
    variables = [tensor_variable(variable) for variable in model.weights]
    arrays = [np.asarray(array) for array in source]
    shapes, expected = ([tuple(each.shape) for each in some] for some in (arrays, variables))
    if shapes != expected:
        raise InputError(
            f"{len(shapes)} weights of shapes {shapes[:4]}... are not those of the model, {len(expected)} of shapes "
            f"{expected[:4]}...: pass the result of its get_weights()."
        )
    return [array for array, variable in zip(arrays, variables) if variable.dtype.is_floating]


def between(start: Sequence[np.ndarray], end: Sequence[np.ndarray], position: float) -> list[np.ndarray]:
    """start + position (end - start), array by array."""
    return [one + position * (other - one) for one, other in zip(start, end)]


def filter_normalised(
    point: Sequence[np.ndarray], random: np.random.RandomState, trainable: Sequence[bool]
) -> list[np.ndarray]:
    """A random direction with the norm of the point's filter in each filter (Li et al. 2018, arXiv:1712.09913).

    A filter is the weights of one output: one index of a variable's last axis. The direction is 0 for biases and the
    scales and shifts of normalisation, that is for variables with less than two axes, and for those not trainable.
    """
    direction = []
    for array, moves in zip(point, trainable):
        if array.ndim < 2 or not moves:
            direction.append(np.zeros_like(array))
            continue
        along = random.normal(size=array.shape).astype(array.dtype)
        axes = tuple(range(array.ndim - 1))
        own, other = (np.sqrt(np.sum(np.square(each), axis=axes, keepdims=True)) for each in (array, along))
        direction.append(along * own / other)
    return direction


def _point_of_file(model: Any, path: str) -> list[np.ndarray]:
    if not path.endswith(_FILES):
        raise InputError(
            f"{path}: expected a weights file that ends in {' or '.join(_FILES)}. For other checkpoints, "
            "restore a model and pass its get_weights()."
        )
    if not os.path.isfile(path):
        raise InputError(f"{path}: no such weights file.")
    with model.distribute_strategy.scope(), untouched([tensor_variable(variable) for variable in model.weights]):
        model.load_weights(path)
        return point_of(model)
