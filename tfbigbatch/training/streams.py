"""Recurrent state carried from one window of a text to the next (truncated backpropagation), under any strategy."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfbigbatch.training.checkpoints import CheckpointPart


class StreamStates:
    """Carries the states of a network's streams through training steps, or through an evaluation.

    Accumulation splits the streams, not the windows. Replica r of R keeps the rows [r * batch_size / R, (r + 1) *
    batch_size / R) of its own streams, and no step moves them between replicas. Create it inside the strategy's scope.

    Args:
      network: keras.Model from [tokens, *states] to [logits, *states]; each state is of shape [batch, size].
      batch_size: streams over all replicas, a multiple of their number.
    """

    def __init__(self, network: Any, batch_size: int) -> None:
        self._strategy = tf.distribute.get_strategy()
        self._batch_size = batch_size
        self._rows = batch_size // self._strategy.num_replicas_in_sync
        self._variables = [
            tf.Variable(
                tf.zeros([self._rows, state.shape[-1]]),
                trainable=False,
                # Each replica assigns its own, and no value of all of them is needed.
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
                name=f"carried_{index}",
            )
            for index, state in enumerate(network.inputs[1:])
        ]

    def outputs(self, network: Any, x: Mapping[str, tf.Tensor], training: bool) -> tf.Tensor:
        """The logits of a batch of windows, whose states it reads and writes; called in the replica.

        Args:
          network: keras.Model.
          x: features of `language_model.contiguous_batches`: 'tokens' [b, window], 'stream' and 'fresh' [b].
          training: as in Keras.
        """
        before = self.read(x["stream"], x["fresh"])
        logits, *after = network([x["tokens"], *before], training=training)
        self.write(x["stream"], after)
        return logits

    def checkpoint_part(self) -> CheckpointPart:
        """The states of all streams [batch_size, size], which any number of replicas that divides them can restore.

        They are restored from another number of streams too, as where a batch ramp follows the run of its first batch.
        """
        sizes = [variable.shape[1] for variable in self._variables]
        whole = [tf.Variable(tf.zeros([self._batch_size, size]), trainable=False, shape=[None, size]) for size in sizes]
        return CheckpointPart(
            {"carried_state": whole},
            before_save=functools.partial(self.gather, whole),
            after_restore=functools.partial(self.spread, whole),
        )

    def read(self, stream: tf.Tensor, fresh: tf.Tensor) -> list[tf.Tensor]:
        """The states of some streams of a replica; called in the replica.

        Args:
          stream: int32 [b], numbers within the replica.
          fresh: bool [b], true for the streams that begin: their states are 0.

        Returns:
          List of float32 [b, size].
        """
        # tf.where, not a product: a NaN must not survive its stream.
        return [tf.where(fresh[:, tf.newaxis], 0.0, tf.gather(variable, stream)) for variable in self._variables]

    def write(self, stream: tf.Tensor, states: Sequence[tf.Tensor]) -> None:
        """Replaces the states of some streams of a replica, as float32; called in the replica."""
        for variable, state in zip(self._variables, states):
            # Variables of replicas have no scatter.
            rows = tf.tensor_scatter_nd_update(variable, stream[:, tf.newaxis], tf.cast(state, variable.dtype))
            variable.assign(rows)

    def gather(self, into: Sequence[tf.Variable]) -> None:
        """Copies the states of all replicas into variables [batch_size, size], on every worker."""

        # A sum of pieces that are zero outside of a replica's own rows gives the same order of rows on any strategy.
        def piece(variable: tf.Variable) -> tf.Tensor:
            first = self._first_row()
            rows = tf.range(first, first + self._rows)[:, tf.newaxis]
            return tf.scatter_nd(rows, variable, [self._batch_size, variable.shape[1]])

        @tf.function
        def everywhere() -> list[tf.Tensor]:
            def in_replica() -> list[tf.Tensor]:
                pieces = [piece(variable) for variable in self._variables]
                return tf.distribute.get_replica_context().all_reduce("SUM", pieces)

            return self._strategy.run(in_replica)

        for variable, of_replicas in zip(into, everywhere()):
            variable.assign(self._strategy.experimental_local_results(of_replicas)[0])

    def spread(self, whole: Sequence[tf.Variable]) -> None:
        """Copies to every replica its rows of the variables `whole`; the inverse of `gather`.

        Rows beyond the streams here are left out, and missing ones are 0.
        """
        values = [variable.read_value()[: self._batch_size] for variable in whole]
        values = [tf.pad(value, [[0, self._batch_size - value.shape[0]], [0, 0]]) for value in values]

        @tf.function
        def everywhere() -> None:
            def in_replica() -> None:
                first = self._first_row()
                for variable, value in zip(self._variables, values):
                    variable.assign(value[first : first + self._rows])

            self._strategy.run(in_replica)

        everywhere()

    def _first_row(self) -> tf.Tensor:
        return tf.distribute.get_replica_context().replica_id_in_sync_group * self._rows
