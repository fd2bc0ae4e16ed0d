"""A probe's examples as equal micro-batches."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfbigbatch.errors import InputError
from tfbigbatch.utils import arguments


def micro_batches_of(probe: Any, count: int = 8) -> Any:
    """The probe's examples as one nest of tensors, each [micro-batches, examples, ...].

    Args:
      probe: a tuple (x, y) or (x, y, sample_weight) of arrays or nests of arrays with equal first
        axes, which is cut into `count` parts in its order; or a finite tf.data.Dataset, or an
        iterable, of at least two equal micro-batches, each such a tuple.
      count: number of parts of a tuple; ignored otherwise.

    Raises:
      ValueError: fewer than two micro-batches, of unequal shapes, or examples that do not divide.
    """
    if isinstance(probe, tuple):
        return _cut(probe, count)
    if isinstance(probe, tf.data.Dataset) and probe.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise InputError("the probe is an infinite tf.data.Dataset: take a part of it, such as probe=dataset.take(8).")
    parts = arguments.items("probe", probe)
    if len(parts) < 2:
        raise InputError(f"the probe has {len(parts)} micro-batch(es): the noise between them needs 2 or more.")
    try:
        return tf.nest.map_structure(lambda *tensors: tf.stack(tensors), *parts)
    except (ValueError, TypeError, tf.errors.InvalidArgumentError) as error:
        raise InputError(
            f"the probe's micro-batches differ: {str(error).splitlines()[0]} Expected equal shapes: batch with "
            "drop_remainder=True. Arrays of all examples are a tuple, probe=(x, y)."
        ) from None


def probe_sizes(micro_batches: Any) -> tuple[int, int]:
    """(number of micro-batches, examples in each)."""
    return tuple(tf.nest.flatten(micro_batches)[0].shape[:2])


def _cut(arrays: Any, count: int) -> Any:
    arrays = tf.nest.map_structure(tf.convert_to_tensor, arrays)
    if not arrays or any(array.shape.rank == 0 for array in tf.nest.flatten(arrays)):
        raise InputError(
            "the probe has no arrays with an axis of examples: expected a tuple (x, y) or (x, y, sample_weight) of "
            "NumPy arrays or tensors; lists are nests of arrays."
        )
    sizes = {int(array.shape[0]) for array in tf.nest.flatten(arrays)}
    examples = min(sizes)
    if count < 2 or len(sizes) > 1 or examples < count or examples % count:
        raise InputError(
            f"the probe's {', '.join(map(str, sorted(sizes)))} examples cannot be cut into {count} micro-batches: "
            "expected arrays of one length, a multiple of micro_batches, which is 2 or more."
        )
    return tf.nest.map_structure(lambda array: tf.reshape(array, [count, examples // count, *array.shape[1:]]), arrays)
