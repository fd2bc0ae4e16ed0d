"""Arrays in memory: features and labels, or several of each by name, and perhaps a weight for each example."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfbigbatch.data.sources.by_index import ByIndex, Nest
from tfbigbatch.errors import InputError


class ArrayExamples(ByIndex):
    """Examples in arrays.

    Args:
      parts: (features, labels) or (features, labels, weights): an array [examples, ...] each, or a dictionary or
        tuple of arrays. Numbers of 64 bits become float32, as Keras makes them; texts become tf.string.
      source: where they come from.

    Raises:
      ValueError: the lengths differ, an array is ragged or of objects, or holds NaN or infinity.
    """

    def __init__(self, parts: tuple[Nest, ...], source: str) -> None:
        if len(parts) not in (2, 3):
            raise InputError(
                f"{source}: {len(parts)} parts; expected (features, labels) or (features, labels, weights). For an "
                "autoencoder give the features twice."
            )
        names = ("features", "labels", "weights")
        self._arrays = tuple(_arrays(part, f"{source}: {name}") for name, part in zip(names, parts))
        sizes = {name: size for name, part in zip(names, self._arrays) for size in {len(a) for a in _flat(part)}}
        lengths = {len(array) for part in self._arrays for array in _flat(part)}
        if len(lengths) != 1:
            shown = ", ".join(f"{size:,} {name}" for name, size in sizes.items())
            hint = ""
            if any(isinstance(part, list) and part and np.ndim(part[0]) for part in parts):
                hint = " A list is one array of its examples: give several arrays as a tuple or a dictionary."
            raise InputError(f"{source}: arrays of different lengths: {shown}; expected one for each example.{hint}")
        # Shared by the parts of a cut.
        self._made: list[tuple[Nest, ...]] = []
        super().__init__(lengths.pop(), source, classes=classes_of(self._arrays[1]))

    @property
    def labels(self) -> Nest:
        """The labels of all examples, arrays [examples, ...]."""
        return self._arrays[1]

    def fetch(self, indices: tf.Tensor) -> tuple[Nest, ...]:
        constants: tuple[Nest, ...] = self._constants()
        return tf.nest.map_structure(lambda array: tf.gather(array, indices), constants)

    def _constants(self) -> tuple[Nest, ...]:
        """The arrays as tensors, made once for all pipelines and parts."""
        if not self._made:
            with tf.init_scope(), tf.device("CPU:0"):
                self._made.append(tf.nest.map_structure(tf.constant, self._arrays))
        return self._made[0]


def _flat(part: Nest) -> list[np.ndarray]:
    return tf.nest.flatten(part)


def classes_of(labels: Nest) -> int | None:
    """The number of classes, where the labels are one array of whole numbers, a number for each example."""
    if not isinstance(labels, np.ndarray) or labels.dtype.kind not in "iu" or labels.ndim > 2:
        return None
    if labels.ndim == 2 and labels.shape[1] != 1:
        return None
    return int(labels.max()) + 1 if labels.size and labels.min() >= 0 else None


def _arrays(part: Any, what: str) -> Nest:
    if isinstance(part, dict):
        return {str(name): _arrays(value, f"{what}[{name!r}]") for name, value in part.items()}
    if isinstance(part, tuple):
        return tuple(_arrays(value, f"{what}[{position}]") for position, value in enumerate(part))
    return array_of(part, what)


def array_of(value: Any, what: str) -> np.ndarray:
    """An array as the input pipelines take it: float32, whole numbers, booleans or texts.

    Raises:
      ValueError: it is ragged, of another type, or not finite.
    """
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.empty(0, object)
    if array.dtype.kind == "O" and array.size and all(isinstance(each, (str, bytes)) for each in array.flat):
        array = np.asarray([each.encode() if isinstance(each, str) else each for each in array.flat], object).reshape(
            array.shape
        )
    elif array.dtype.kind not in "fiubUS":
        raise InputError(
            f"{what} is {type(value).__name__} that is no array of numbers or texts; expected one of a single shape. "
            "Pad sequences of different lengths, and give columns of different types as a dictionary of arrays."
        )
    if array.dtype.kind == "f":
        array = array.astype(np.float32, copy=False)
        wrong = array.size - int(np.count_nonzero(np.isfinite(array)))
        if wrong:
            where = f", the first in example {np.argwhere(~np.isfinite(array))[0][0]}" if array.ndim else ""
            raise InputError(f"{what} has {wrong:,} values that are NaN or infinite{where}; expected finite ones.")
    return array
