"""Means over all replicas, and over groups of neighbours that do not wait for the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import collective_ops

from tfbigbatch.optimizers.sharing import launchers, regrouped
from tfbigbatch.optimizers.tensorflow import arithmetic_dtype

# Collectives of groups of n have keys from n times this up; TensorFlow counts those of whole strategies from 1 up.
_KEYS = 10_000


def means(strategy: tf.distribute.Strategy, values: Sequence[Any]) -> list[Any]:
    """In cross-replica context: the mean over all replicas of the values that each has, on each."""
    if strategy.num_replicas_in_sync == 1 or not values:
        return list(values)
    pairs = [(value, value) for value in values]
    return list(strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.MEAN, pairs))


def group_means(strategy: tf.distribute.Strategy, values: Sequence[Any], size: int) -> list[Any]:
    """In cross-replica context: the mean over its group of the values that each replica has, on each.

    Args:
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
    by_device = []
    for index, launcher in enumerate(collectives):
        key = _KEYS * size + strategy.extended._get_replica_id_in_sync_group(index) // size
        own = [row[index] for row in rows]
        with tf.device(launcher._device):
            # The collectives do not support bfloat16.
            wider = [tf.cast(value, arithmetic_dtype(value)) for value in own]
            sums = [collective(collective_ops.all_reduce_v2, launcher, value, size, key) for value in wider]
            by_device.append([tf.cast(each / size, value.dtype) for each, value in zip(sums, own)])
    return [regrouped(row) for row in zip(*by_device)]


def collective(function: Callable[..., tf.Tensor], launcher: Any, value: tf.Tensor, size: int, key: int) -> tf.Tensor:
    """A collective operation between devices, by TensorFlow's launcher of this one; `key` is that of their group."""
    return function(
        value,
        size,
        key,
        launcher._next_instance_key(),
        communication_hint=launcher._options.implementation.value,
        timeout=launcher._options.timeout_seconds or 0,
        ordering_token=launcher._get_ordering_token(),
    )


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
