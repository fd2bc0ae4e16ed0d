"""Datasets of examples by index: exact order and exact resume, whatever holds the examples."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfbigbatch.data.dataset import Dataset
from tfbigbatch.data.records import order
from tfbigbatch.errors import InputError

Nest = Any
"""An array or a tensor, or a dictionary or tuple of them."""


class ByIndex(Dataset):
    """Examples by index. A subclass defines `fetch`.

    The order of an epoch is a pure function of (seed, epoch), so a resumed run reads exactly what it would have read.

    Args:
      size: number of examples that `fetch` knows.
      source: where they come from.
      classes: number of classes where the labels are class numbers; None where they are not, or it is unknown.
    """

    def __init__(self, size: int, source: str, *, classes: int | None = None) -> None:
        if size < 1:
            raise InputError(f"{source}: no examples.")
        self.source = source
        self.classes = classes
        self._size = size
        # None: all of them.
        self._chosen: np.ndarray | None = None
        self._note = ""

    def fetch(self, indices: tf.Tensor) -> tuple[Nest, ...]:
        """(features, labels) or (features, labels, weights), each [n, ...] with static inner shapes.

        Args:
          indices: int64 [n], of examples; called within an input pipeline.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no fetch().")

    def __len__(self) -> int:
        return self._size if self._chosen is None else len(self._chosen)

    @property
    def contents(self) -> str:
        return f"{len(self):,} examples{self._note}"

    def examples_in_epoch(self, batch_size: int) -> int:
        return len(self)

    def training_batches(
        self, context: tf.distribute.InputContext, *, batch_size: int, seed: int, first_step: int, last_step: int
    ) -> tf.data.Dataset:
        def batch_of(positions: tf.Tensor) -> Nest:
            return self._rows(order.examples_at(positions, seed=seed, dataset_size=len(self)))

        return replica_batches(batch_of, context, batch_size=batch_size, first_step=first_step, last_step=last_step)

    def evaluation_batches(self, context: tf.distribute.InputContext, *, batch_size: int) -> tf.data.Dataset:
        def batch_of(positions: tf.Tensor) -> Nest:
            mask = tf.cast(positions < len(self), tf.float32)
            features, labels, *weights = self._rows(tf.minimum(positions, len(self) - 1))
            return features, labels, masked(mask, weights)

        steps = self.evaluation_steps(batch_size)
        return replica_batches(batch_of, context, batch_size=batch_size, first_step=0, last_step=steps)

    def without(self, fraction: float, name: str) -> tuple[ByIndex, ByIndex]:
        """Two parts: the examples that stay, and a fraction chosen at random, the same in every run.

        Args:
          fraction: in (0, 1), of the examples.
          name: of the part that is cut off, for the banner.

        Raises:
          ValueError: there are fewer than two examples.
        """
        if len(self) < 2:
            raise InputError(f"{self.source}: one example; expected two or more, to hold out {name}.")
        cut = min(len(self) - 1, max(1, round(len(self) * fraction)))
        chosen = np.arange(self._size, dtype=np.int64) if self._chosen is None else self._chosen
        shuffled = np.random.default_rng(0).permutation(chosen)
        held_out, kept = self._of(shuffled[:cut]), self._of(shuffled[cut:])
        kept._note = f"; {cut:,} more, chosen at random, are held out as {name}"
        return kept, held_out

    def _of(self, chosen: np.ndarray) -> ByIndex:
        """The same dataset with other examples chosen; what holds them is shared."""
        part = copy.copy(self)
        part._chosen, part._note = np.sort(chosen), ""
        return part

    def _rows(self, positions: tf.Tensor) -> tuple[Nest, ...]:
        return self.fetch(positions if self._chosen is None else tf.gather(self._chosen, positions))


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
        return parts_of(self._examples[index], f"{self.source}, example {index}")

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


def replica_batches(
    batch_of: Callable[[tf.Tensor], Any],
    context: tf.distribute.InputContext,
    *,
    batch_size: int,
    first_step: int,
    last_step: int,
) -> tf.data.Dataset:
    """`batch_of(positions)` for each step and each replica of this worker in turn.

    Args:
      batch_of: function of positions, int64 [batch_size / replicas]. A global batch is `batch_size` consecutive
        positions, divided among the replicas of all workers in order.
      context: this worker's part in the input.
      batch_size: positions in a global batch; a multiple of the number of replicas.
      first_step, last_step: the steps [first_step, last_step).
    """
    replicas = context.num_replicas_in_sync // context.num_input_pipelines
    first_replica = context.input_pipeline_id * replicas
    per_replica = batch_size // context.num_replicas_in_sync

    # AutoGraph would find no control flow here, and takes a tenth of a second to do so.
    @tf.autograph.experimental.do_not_convert
    def batch(turn: tf.Tensor) -> Any:
        step, replica = turn // replicas, turn % replicas + first_replica
        return batch_of(step * batch_size + replica * per_replica + tf.range(per_replica, dtype=tf.int64))

    turns = tf.data.Dataset.range(first_step * replicas, last_step * replicas)
    return turns.map(batch, num_parallel_calls=2, deterministic=True).prefetch(2)


def masked(mask: tf.Tensor, weights: Sequence[Nest]) -> Nest:
    """The weights of an evaluated batch: the mask [n], times the examples' own weights where there are any."""
    if not weights or weights[0] is None:
        return mask

    def product(weight: tf.Tensor) -> tf.Tensor:
        return tf.cast(weight, tf.float32) * tf.reshape(mask, [-1, *[1] * (weight.shape.rank - 1)])

    return tf.nest.map_structure(product, weights[0])


def parts_of(given: Any, what: str) -> tuple[Nest, ...]:
    """(features, labels) or (features, labels, weights) of arrays; raises ValueError for something else."""
    if not isinstance(given, (tuple, list)) or len(given) not in (2, 3):
        parts = f" of {len(given)} parts" if isinstance(given, (tuple, list)) else ""
        raise InputError(f"{what} is {type(given).__name__}{parts}; expected (features, labels), perhaps with weights.")
    return tuple(nest_of(part, f"{what}: {name}") for name, part in zip(("features", "labels", "weights"), given))


def _dtype(array: np.ndarray) -> tf.DType:
    return tf.string if array.dtype.kind in "OUS" else tf.as_dtype(array.dtype)


def nest_of(part: Any, what: str) -> Nest:
    """An array as the input pipelines take it, or a dictionary or tuple of such: see `array_of`."""
    if isinstance(part, dict):
        return {str(name): nest_of(value, f"{what}[{name!r}]") for name, value in part.items()}
    if isinstance(part, tuple):
        return tuple(nest_of(value, f"{what}[{position}]") for position, value in enumerate(part))
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
