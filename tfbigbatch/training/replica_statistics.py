"""The statistics of batch normalisation of every replica, in a run's checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfbigbatch.optimizers.replica_state import assign_own, is_of_replicas
from tfbigbatch.training.checkpoints import STATISTICS, CheckpointPart

LIMIT = 256 * 2**20
"""The most bytes that a checkpoint holds of them; above, it has their mean alone."""


class ReplicaStatistics:
    """The values that each replica has of its own, as one variable [replicas, values] of each dtype.

    Each replica moves its statistics by its own part of the batch. A checkpoint of the network holds their mean, which
    other numbers of replicas begin with. A run that goes on from the mean ends with the same weights, but with
    statistics that are rounded otherwise.

    Args:
      strategy: the tf.distribute.Strategy.
      weights: of the network.
    """

    def __init__(self, strategy: tf.distribute.Strategy, weights: Sequence[tf.Variable]) -> None:
        self._strategy = strategy
        self._groups: dict[str, list[tf.Variable]] = {}
        replicas = strategy.num_replicas_in_sync
        for variable in weights:
            if replicas > 1 and is_of_replicas(variable):
                self._groups.setdefault(variable.dtype.name, []).append(variable)
        sizes = {dtype: sum(each.shape.num_elements() for each in group) for dtype, group in self._groups.items()}
        self.bytes = sum(replicas * size * tf.as_dtype(dtype).size for dtype, size in sizes.items())
        """That a checkpoint would hold of them."""
        self._whole: list[tf.Variable] = []
        if self.is_kept:
            self._whole = [
                tf.Variable(tf.zeros([replicas, size], dtype), trainable=False) for dtype, size in sizes.items()
            ]
            self._rows, self._assign = tf.function(self._sums_of_rows), tf.function(self._assigned)

    @property
    def is_kept(self) -> bool:
        """Whether checkpoints hold them: there are some, of no more bytes than LIMIT."""
        return 0 < self.bytes <= LIMIT

    def checkpoint_part(self) -> CheckpointPart:
        """They, as a part of a checkpoint."""
        return CheckpointPart({STATISTICS: self._whole}, before_save=self._gather, after_restore=self._spread)

    def _gather(self) -> None:
        for whole, rows in zip(self._whole, self._rows()):
            whole.assign(self._strategy.experimental_local_results(rows)[0])

    def _sums_of_rows(self) -> Any:
        # Pieces that are zero but for a replica's own row, as in optimizers/replica_state.py; here one for all.
        def in_replica() -> list[tf.Tensor]:
            context = tf.distribute.get_replica_context()
            row, rows = [[context.replica_id_in_sync_group]], []
            for group, whole in zip(self._groups.values(), self._whole):
                own = tf.concat([tf.reshape(variable, [-1]) for variable in group], 0)
                rows.append(context.all_reduce("SUM", tf.scatter_nd(row, own[tf.newaxis], whole.shape)))
            return rows

        return self._strategy.run(in_replica)

    def _spread(self) -> None:
        self._assign([whole.read_value() for whole in self._whole])

    def _assigned(self, values: list[tf.Tensor]) -> None:
        def in_replica() -> None:
            row = tf.distribute.get_replica_context().replica_id_in_sync_group
            for group, whole in zip(self._groups.values(), values):
                parts = tf.split(whole[row], [variable.shape.num_elements() for variable in group])
                assign_own(group, [tf.reshape(part, variable.shape) for variable, part in zip(group, parts)])

        self._strategy.run(in_replica)
