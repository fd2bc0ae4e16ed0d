"""Means over all replicas, and over groups of neighbours that do not wait for the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import cross_device_utils

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers.replica_state import regrouped
from tfbigbatch.optimizers.sharing import launchers

# A group's collectives have a key of its own; TensorFlow counts those of whole strategies from 1 up.
_FIRST_KEY = 10_000


def means(strategy: tf.distribute.Strategy, values: Sequence[Any]) -> list[Any]:
    """In cross-replica context: the mean over all replicas of the values that each has, on each."""
    if strategy.num_replicas_in_sync == 1 or not values:
        return list(values)
    pairs = [(value, value) for value in values]
    return list(strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.MEAN, pairs))


class Groups:
    """Groups of neighbouring replicas, such as those of a host, that take means among themselves.

    Args:
      strategy: the tf.distribute.Strategy.
      size: replicas to a group.

    Raises:
      ValueError: the replicas do not divide into such groups, or a group would be of parts of two processes.
    """

    def __init__(self, strategy: tf.distribute.Strategy, size: int) -> None:
        replicas = strategy.num_replicas_in_sync
        if replicas % size:
            raise InputError(f"LocalSteps: {replicas} replicas do not divide into groups of group_size={size}.")
        self._size = size
        self._launchers: list[Any] = []
        collectives = launchers(strategy)
        if not collectives:
            return
        here = len(collectives)
        if here % size and size % here:
            raise InputError(
                f"LocalSteps: group_size={size}, and each worker has {here} replicas: a group would cut through a "
                f"worker. Expected a divisor or a multiple of {here}."
            )
        if size > here:
            self._launchers = [self._launcher(strategy, index, each) for index, each in enumerate(collectives)]

    def _launcher(self, strategy: Any, index: int, of_all: Any) -> Any:
        """TensorFlow's collectives of one device with its group."""
        group = strategy.extended._get_replica_id_in_sync_group(index) // self._size
        keys = cross_device_utils.CollectiveKeys(group_key_start=_FIRST_KEY + group)
        device = of_all._device
        return cross_device_utils.CollectiveReplicaLauncher(
            keys.get_group_key([device]), self._size, keys, device, of_all._options
        )

    def means(self, strategy: tf.distribute.Strategy, values: Sequence[Any]) -> list[Any]:
        """In cross-replica context: the mean over its group of the values that each replica has, on each.

        Args:
          strategy: the tf.distribute.Strategy.
          values: floating-point tensors of each replica.
        """
        if self._size == 1 or not values:
            return list(values)
        if self._size == strategy.num_replicas_in_sync:
            return means(strategy, values)
        if isinstance(strategy, tf.distribute.TPUStrategy):
            replicas = range(strategy.num_replicas_in_sync)
            groups = [list(replicas[start : start + self._size]) for start in replicas[:: self._size]]
            return [tf.raw_ops.CrossReplicaSum(input=each, group_assignment=groups) / self._size for each in values]
        rows = [strategy.experimental_local_results(value) for value in values]
        if not self._launchers:
            return [regrouped(self._of_neighbours(row, self._size)) for row in rows]
        # With one device for each process the sum is of the group's processes; else also of each one's devices, on all.
        by_device = [self._summed(index, [row[index] for row in rows]) for index in range(len(self._launchers))]
        return [regrouped(row) for row in zip(*by_device)]

    def _of_neighbours(self, row: Sequence[tf.Tensor], size: int) -> list[tf.Tensor]:
        found: list[tf.Tensor] = []
        for start in range(0, len(row), size):
            members = row[start : start + size]
            with tf.device(members[0].device):
                mean = tf.add_n(members) / size
            for member in members:
                with tf.device(member.device):
                    found.append(tf.identity(mean))
        return found

    def _summed(self, index: int, values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        launcher = self._launchers[index]
        with tf.device(launcher._device):
            # The collectives do not support bfloat16.
            wide = [tf.cast(value, tf.float64 if value.dtype == tf.float64 else tf.float32) for value in values]
            return [tf.cast(launcher.all_reduce(each) / self._size, value.dtype) for each, value in zip(wide, values)]
