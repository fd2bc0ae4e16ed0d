"""Variables that differ from replica to replica, as a checkpoint holds them: all replicas' values in one."""

import tensorflow as tf


class ReplicaState:
    """Copies the values that variables have on each replica, to variables [replicas, ...] and back.

    A checkpoint of a strategy's variables holds those of its first replica.

    Args:
      strategy: the tf.distribute.Strategy.
      variables: list of its variables.

    Attributes:
      whole: list of variables [replicas, ...], zero at first.
    """

    def __init__(self, strategy, variables):
        self._strategy = strategy
        self._variables = list(variables)
        replicas = self._strategy.num_replicas_in_sync
        self.whole = [
            tf.Variable(tf.zeros([replicas, *variable.shape], variable.dtype), trainable=False)
            for variable in self._variables
        ]

    def gather(self):
        """Copies every replica's values into `whole`, on every worker."""
        replicas = self._strategy.num_replicas_in_sync

        # Sums of pieces that are zero but for a replica's own row: the rows' order is then ours, on any strategy.
        def piece(variable):
            row = tf.distribute.get_replica_context().replica_id_in_sync_group
            return tf.scatter_nd([[row]], tf.convert_to_tensor(variable)[tf.newaxis], [replicas, *variable.shape])

        @tf.function
        def everywhere(index):
            def in_replica():
                return tf.distribute.get_replica_context().all_reduce("SUM", piece(self._variables[index]))

            return self._strategy.run(in_replica)

        for index, whole in enumerate(self.whole):
            whole.assign(self._strategy.experimental_local_results(everywhere(index))[0])

    def spread(self):
        """Gives every replica its own values of `whole`, the reverse of `gather`."""

        @tf.function
        def everywhere(index, whole):
            def in_replica():
                row = tf.distribute.get_replica_context().replica_id_in_sync_group
                assign_own([self._variables[index]], [whole[row]])

            self._strategy.run(in_replica)

        for index, whole in enumerate(self.whole):
            everywhere(index, whole.read_value())


def assign_own(variables, values):
    """In a replica: assigns each variable's copy of this replica a value of its own, cast to its dtype."""

    def merged(strategy, variables, values):
        for variable, value in zip(variables, values):
            strategy.extended.update(
                variable, lambda own, new: own.assign(tf.cast(new, own.dtype)), args=(value,), group=False
            )

    tf.__internal__.distribute.interim.maybe_merge_call(
        merged, tf.distribute.get_strategy(), list(variables), list(values)
    )
