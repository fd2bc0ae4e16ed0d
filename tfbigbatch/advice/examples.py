"""Training examples of a user's dataset in memory: random batches of any size."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from tfbigbatch.errors import InputError

# Of a tf.data.Dataset at most this is read.
_MOST_EXAMPLES, _MOST_BYTES = 16_384, 2**30
_EXPECTED = "expected (x, y) or (x, y, sample_weight) of arrays, or a batched tf.data.Dataset of them, as for fit"


@dataclasses.dataclass(frozen=True)
class Examples:
    """Examples to draw batches from.

    Attributes:
      arrays: (x, y) or (x, y, sample_weight), nests of arrays [examples, ...].
      dataset_size: examples in an epoch; more than there are here where only a part was read.
    """

    arrays: Any
    dataset_size: int

    def __len__(self) -> int:
        return len(tf.nest.flatten(self.arrays)[0])

    def batch(self, size: int, seed: int) -> Any:
        """`size` different examples at random."""
        return self._take(np.random.RandomState(seed).permutation(len(self))[:size])

    def batches(self, size: int, count: int, seed: int) -> tf.data.Dataset:
        """`count` batches, in a new order of the examples for each epoch; the last of an epoch is left out if short."""
        random = np.random.RandomState(seed)
        whole = len(self) // size
        orders = [random.permutation(len(self))[: whole * size] for _ in range(-(-count // whole))]
        indices = np.concatenate(orders).reshape([-1, size])[:count]
        constants = tf.nest.map_structure(tf.convert_to_tensor, self.arrays)

        def take(positions: tf.Tensor) -> Any:
            return tf.nest.map_structure(lambda array: tf.gather(array, positions), constants)

        return tf.data.Dataset.from_tensor_slices(indices).map(take).prefetch(2)

    def _take(self, positions: np.ndarray) -> Any:
        return tf.nest.map_structure(lambda array: array[positions], self.arrays)


def read(dataset: Any, dataset_size: int | None) -> Examples:
    """The examples of a user's dataset.

    Args:
      dataset: (x, y) or (x, y, sample_weight), nests of arrays; or a batched tf.data.Dataset of such, from which the
        first 16,384 examples are read.
      dataset_size: examples in an epoch; None where the dataset tells.

    Raises:
      ValueError: it is something else, has no labels, or its size is unknown.
    """
    if isinstance(dataset, tf.data.Dataset):
        arrays, ended = _read(dataset)
        size = dataset_size or (_rows(arrays) if ended else _size(dataset, arrays))
    elif isinstance(dataset, tuple):
        arrays = tf.nest.map_structure(np.asarray, _labelled(dataset))
        size = dataset_size or _rows(arrays)
    else:
        raise InputError(f"advise: dataset is a {type(dataset).__name__}; {_EXPECTED}.")
    return Examples(arrays, size)


def _labelled(element: Any) -> tuple[Any, ...]:
    if not isinstance(element, tuple) or len(element) not in (2, 3) or element[1] is None:
        raise InputError(f"advise: the dataset has no labels, or is no tuple; {_EXPECTED}.")
    return element if len(element) == 2 or element[2] is not None else element[:2]


def _rows(arrays: Any) -> int:
    sizes = {len(each) if each.ndim else -1 for each in tf.nest.flatten(arrays)}
    if len(sizes) != 1 or min(sizes) < 0:
        raise InputError(f"advise: the dataset's arrays have first axes of {sorted(sizes)}; {_EXPECTED}.")
    return int(sizes.pop())


def _read(dataset: tf.data.Dataset) -> tuple[Any, bool]:
    """(arrays of the first examples, whether these are all)."""
    parts: list[Any] = []
    count = size = 0
    for element in dataset:
        part = tf.nest.map_structure(np.asarray, _labelled(element))
        count += _rows(part)
        size += sum(each.nbytes for each in tf.nest.flatten(part))
        parts.append(part)
        if count >= _MOST_EXAMPLES or size >= _MOST_BYTES:
            break
    else:
        if not parts:
            raise InputError(f"advise: the dataset is empty; {_EXPECTED}.")
        return _joined(parts), True
    return _joined(parts), False


def _joined(parts: list[Any]) -> Any:
    return tf.nest.map_structure(lambda *arrays: np.concatenate(arrays), *parts)


def _size(dataset: tf.data.Dataset, arrays: Any) -> int:
    batches = int(dataset.cardinality())
    if batches < 0:
        raise InputError(
            "advise: the tf.data.Dataset does not say how many batches it has: give dataset_size, examples in an epoch."
        )
    first = tf.nest.flatten(next(iter(dataset)))[0].shape[0]
    return max(_rows(arrays), batches * int(first))
