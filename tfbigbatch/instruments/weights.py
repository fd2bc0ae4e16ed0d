"""A model's weights as a point: read from where they are kept, and moved along directions."""

import os

import numpy as np

from tfbigbatch.errors import InputError
from tfbigbatch.instruments.probe.model import tensor_variable, untouched

_FILES = (".weights.h5", ".h5", ".keras")


def floating_variables(model):
    """The model's weights as tf.Variables, trainable or not, less those that are not of floating point (counters)."""
    variables = [tensor_variable(variable) for variable in model.weights]
    return [variable for variable in variables if variable.dtype.is_floating]


def point_of(model, source=None):
    """The values of `floating_variables(model)`, as a list of NumPy arrays.

    Args:
      source: None, the weights as they are; a list as `model.get_weights()` gives it; or the path of a
        file of weights of this model's Keras: .weights.h5, .h5 or .keras.

    Raises:
      ValueError: the source is of another model, or none of these.
    """
    if source is None:
        return [variable.numpy() for variable in floating_variables(model)]
    if isinstance(source, (str, os.PathLike)):
        return _point_of_file(model, os.fspath(source))
    variables = [tensor_variable(variable) for variable in model.weights]
    arrays = [np.asarray(array) for array in source]
    shapes, expected = ([tuple(each.shape) for each in some] for some in (arrays, variables))
    if shapes != expected:
        raise InputError(
            f"{len(shapes)} weights of shapes {shapes[:4]}... are not those of the model, {len(expected)} of shapes "
            f"{expected[:4]}...: give what its get_weights() gave."
        )
    return [array for array, variable in zip(arrays, variables) if variable.dtype.is_floating]


def between(start, end, position):
    """start + position (end - start), array by array."""
    return [one + position * (other - one) for one, other in zip(start, end)]


def filter_normalised(point, random, trainable):
    """A random direction, of which each filter has the norm of the point's (Li et al. 2018, arXiv:1712.09913).

    A filter is all that leads to one output, that is to one index of a variable's last axis. Biases and
    the scales and shifts of normalisation, variables of less than two axes, stay where they are.

    Args:
      point: list of arrays.
      random: np.random.RandomState.
      trainable: list of bool; others stay where they are.
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


def _point_of_file(model, path):
    if not path.endswith(_FILES):
        raise InputError(
            f"{path}: expected a file of weights that ends in {' or '.join(_FILES)}. Of another kind of checkpoint, "
            "restore a model from it and give its get_weights()."
        )
    if not os.path.isfile(path):
        raise InputError(f"{path}: no such file of weights.")
    with model.distribute_strategy.scope(), untouched([tensor_variable(variable) for variable in model.weights]):
        model.load_weights(path)
        return point_of(model)
