"""Examples of a Python object with `len` and indices, as PyTorch's datasets have them."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import tensorflow as tf

from tfbigbatch.data.in_memory.arrays import Arrays, nest_of, of_parts
from tfbigbatch.data.sources.by_index import ByIndex, Nest
from tfbigbatch.errors import InputError


class Indexable(ByIndex):
    """Examples by `examples[index]`: (features, labels) or (features, labels, weight) of arrays or numbers.

    The object is read by one thread at a time, in Python. Whatever it draws at random itself, as for augmentation, a
    resumed run draws again.

    Args:
      examples: has `__len__` and `__getitem__`.
      source: where they come from.

    Raises:
      ValueError: an example is something else.
    """

    def __init__(self, examples: Any, source: str) -> None:
        super().__init__(len(examples), source)
        self._examples = examples
        self._lock = threading.Lock()
        first = self._example(0)
        self._structure = tf.nest.map_structure(lambda array: tf.TensorSpec(array.shape, _dtype(array)), first)

    def fetch(self, indices: tf.Tensor) -> tuple[Nest, ...]:
        specs = tf.nest.flatten(self._structure)
        read = tf.numpy_function(self._read, [indices], [spec.dtype for spec in specs], stateful=False)
        for tensor, spec in zip(read, specs):
            tensor.set_shape([indices.shape[0], *spec.shape])
        return tf.nest.pack_sequence_as(self._structure, read)

    def _example(self, index: int) -> tuple[Nest, ...]:
        return _parts(self._examples[index], f"{self.source}, example {index}")

    def _read(self, indices: np.ndarray) -> list[np.ndarray]:
        with self._lock:
            rows = [(index, tf.nest.flatten(self._example(int(index)))) for index in indices]
        for index, row in rows:
            for array, spec in zip(row, tf.nest.flatten(self._structure), strict=True):
                if array.shape != tuple(spec.shape) or _dtype(array) != spec.dtype:
                    raise InputError(
                        f"{self.source}, example {index} has {array.dtype} {list(array.shape)}, and example 0 "
                        f"{spec.dtype.name} {spec.shape.as_list()}; expected the same of all. Pad or crop them."
                    )
        return [np.stack(column) for column in zip(*(row for _, row in rows))]


def _parts(given: Any, what: str) -> tuple[Nest, ...]:
    if not isinstance(given, (tuple, list)) or len(given) not in (2, 3):
        raise InputError(f"{what} is {type(given).__name__}; expected (features, labels), perhaps with weights.")
    return tuple(nest_of(part, what) for part in given)


def _dtype(array: np.ndarray) -> tf.DType:
    return tf.string if array.dtype.kind in "OUS" else tf.as_dtype(array.dtype)


def of_keras_batches(batches: Any, source: str) -> Arrays:
    """The examples of a Keras Sequence or PyDataset, which gives whole batches: read once, into memory.

    Raises:
      ValueError: a batch is not (features, labels), or their shapes differ.
    """
    found = [_parts(batches[index], f"{source}, batch {index}") for index in range(len(batches))]
    try:
        together = tf.nest.map_structure(lambda *arrays: np.concatenate(arrays), *found)
    except (ValueError, TypeError) as error:
        raise InputError(f"{source}: {len(found)} batches, that do not fit together: {error}") from None
    return of_parts(together, f"{source} (read into memory)")
