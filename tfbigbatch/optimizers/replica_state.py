"""Variables that differ between replicas, stacked for a checkpoint as [replicas, ...]."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf


class ReplicaState:
    """Copies the values that a strategy's variables have on each replica, to variables [replicas, ...] and back.

    A checkpoint of a strategy's variables holds those of its first replica.

    Attributes:
      whole: list of variables [replicas, ...], zero at first.
    """

    def __init__(self, strategy: tf.distribute.Strategy, variables: Sequence[tf.Variable]) -> None:
        self._strategy = strategy
        self._variables = list(variables)
        replicas = strategy.num_replicas_in_sync
        self.whole = [
            tf.Variable(tf.zeros([replicas, *variable.shape], variable.dtype), trainable=False)
            for variable in variables
        ]
        # A function a variable, traced once: with many replicas a trace takes longer than the copy.
        self._sums_of_rows = [tf.function(functools.partial(self._sum_of_rows, variable)) for variable in variables]

    def gather(self) -> None:
        """Copies every replica's values into `whole`, on every worker."""
        for variable, sum_of_rows, whole in zip(self._variables, self._sums_of_rows, self.whole):
            rows = self._strategy.experimental_local_results(variable)
            # Where this process holds all of them, they need no function, and no sum.
            all_here = len(rows) == self._strategy.num_replicas_in_sync
            whole.assign(tf.stack(rows) if all_here else self._strategy.experimental_local_results(sum_of_rows())[0])

    def spread(self) -> None:
        """Gives every replica its own values of `whole`, the reverse of `gather`."""
        number = self._strategy.extended._get_replica_id_in_sync_group
        for variable, whole in zip(self._variables, self.whole):
            rows = tf.unstack(whole.read_value())
            for index, copy in enumerate(self._strategy.experimental_local_results(variable)):
                copy.assign(rows[number(index)])

    def _sum_of_rows(self, variable: tf.Variable) -> tf.Tensor:
        # Pieces that are zero but for a replica's own row: the rows' order is then ours, on any strategy.
        def in_replica() -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            row, shape = context.replica_id_in_sync_group, [self._strategy.num_replicas_in_sync, *variable.shape]
            return context.all_reduce("SUM", tf.scatter_nd([[row]], tf.convert_to_tensor(variable)[tf.newaxis], shape))

        return self._strategy.run(in_replica)


def is_of_replicas(variable: Any) -> bool:
    """True if each replica has a value of its own, as of the statistics of batch normalisation and of metrics."""
    on_read = getattr(variable, "synchronization", None) == tf.VariableSynchronization.ON_READ
    return on_read and hasattr(variable, "values")
