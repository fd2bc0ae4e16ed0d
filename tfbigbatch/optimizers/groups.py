"""Means over all replicas, and over groups of neighbours that do not wait for the others."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import cross_device_utils

from tfbigbatch.optimizers.replica_state import regrouped
from tfbigbatch.optimizers.sharing import launchers

# A group's collectives have a key of its own; TensorFlow counts those of whole strategies from 1 up.
_FIRST_KEY = 10_000
# A strategy's launchers by the size of its groups, made once: a second set would number its exchanges from 1 again.
_LAUNCHERS: weakref.WeakKeyDictionary[tf.distribute.Strategy, dict[int, list[Any]]] = weakref.WeakKeyDictionary()


def wide(dtype: tf.DType) -> tf.DType:
    """The dtype of the arithmetic on values of `dtype`: float32, or float64 where they are."""
    return tf.float64 if dtype == tf.float64 else tf.float32


def means(strategy: tf.distribute.Strategy, values: Sequence[Any]) -> list[Any]:
    """In cross-replica context: the mean over all replicas of the values that each has, on each."""
    if strategy.num_replicas_in_sync == 1 or not values:
        return list(values)
    pairs = [(value, value) for value in values]
    return list(strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.MEAN, pairs))


def group_means(strategy: tf.distribute.Strategy, values: Sequence[Any], size: int) -> list[Any]:
    """In cross-replica context: the mean over its group of the values that each replica has, on each.

    Args:
      strategy: the tf.distribute.Strategy.
      values: floating-point tensors of each replica.
      size: replicas to a group, a divisor of their number; neighbours by their numbers.
    """
    if size == 1 or not values:
        return list(values)
    if size == strategy.num_replicas_in_sync:
        return means(strategy, values)
    if isinstance(strategy, tf.distribute.TPUStrategy):
        replicas = range(strategy.num_replicas_in_sync)
        groups = [list(replicas[start : start + size]) for start in replicas[::size]]
        return [tf.raw_ops.CrossReplicaSum(input=each, group_assignment=groups) / size for each in values]
    rows = [strategy.experimental_local_results(value) for value in values]
    collectives = launchers(strategy)
    if not collectives or len(collectives) % size == 0:
        return [regrouped(_of_neighbours(row, size)) for row in rows]
    if size not in _LAUNCHERS.setdefault(strategy, {}):
        _LAUNCHERS[strategy][size] = [_launcher(strategy, size, *each) for each in enumerate(collectives)]
    by_device = [
        _of_processes(launcher, size, [row[index] for row in rows])
        for index, launcher in enumerate(_LAUNCHERS[strategy][size])
    ]
    return [regrouped(row) for row in zip(*by_device)]


def _of_neighbours(row: Sequence[tf.Tensor], size: int) -> list[tf.Tensor]:
    found: list[tf.Tensor] = []
    for start in range(0, len(row), size):
        members = row[start : start + size]
        with tf.device(members[0].device):
            mean = tf.add_n(members) / size
        for member in members:
            with tf.device(member.device):
                found.append(tf.identity(mean))
    return found


def _launcher(strategy: Any, size: int, index: int, of_all: Any) -> Any:
    """TensorFlow's collectives of one device of this process with its group."""
    group = strategy.extended._get_replica_id_in_sync_group(index) // size
    keys = cross_device_utils.CollectiveKeys(group_key_start=_FIRST_KEY + group)
    device = of_all._device
    return cross_device_utils.CollectiveReplicaLauncher(
        keys.get_group_key([device]), size, keys, device, of_all._options
    )


def _of_processes(launcher: Any, size: int, values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    with tf.device(launcher._device):
        # The collectives do not support bfloat16.
        sums = [launcher.all_reduce(tf.cast(value, wide(value.dtype))) for value in values]
        return [tf.cast(each / size, value.dtype) for each, value in zip(sums, values)]
