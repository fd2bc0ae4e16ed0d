"""State that each stream of a text carries from one window to the next, under any strategy."""

import tensorflow as tf

from tfbigbatch.training.train_step import TrainingModel


class CarriedState:
    """The states of `batch_size` streams: each replica keeps the rows of its own streams.

    Make it inside the strategy's scope. Replica r of R keeps the rows [r * batch_size / R,
    (r + 1) * batch_size / R), and no update moves them between replicas.

    Args:
      sizes: the width of each state.
      batch_size: streams over all replicas, a multiple of their number.
    """

    def __init__(self, sizes, batch_size):
        self._strategy = tf.distribute.get_strategy()
        self._sizes = list(sizes)
        self._batch_size = batch_size
        self._rows = batch_size // self._strategy.num_replicas_in_sync
        self._variables = [
            tf.Variable(
                tf.zeros([self._rows, size]),
                trainable=False,
                # Each replica assigns its own; nobody asks for one value of all of them.
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
                name=f"carried_{index}",
            )
            for index, size in enumerate(self._sizes)
        ]

    def read(self, stream, fresh):
        """In a replica: the states of some of its streams.

        Args:
          stream: int32 [b], numbers within the replica.
          fresh: bool [b], true for the streams that begin: their states are 0, whatever lies there.

        Returns:
          List of float32 [b, size].
        """
        # A choice and not a product: a state that left the finite numbers must not outlive its stream.
        return [tf.where(fresh[:, tf.newaxis], 0.0, tf.gather(variable, stream)) for variable in self._variables]

    def write(self, stream, states):
        """In a replica: replaces the states of some of its streams, float32 whatever `states` are."""
        for variable, state in zip(self._variables, states):
            # Variables of replicas have no scatter of their own.
            rows = tf.tensor_scatter_nd_update(variable, stream[:, tf.newaxis], tf.cast(state, variable.dtype))
            variable.assign(rows)

    def gathered(self):
        """Variables [batch_size, size] to hold all streams' states, as they lie in a checkpoint; zero at first."""
        return [tf.Variable(tf.zeros([self._batch_size, size]), trainable=False) for size in self._sizes]

    def gather(self, into):
        """Copies every replica's states into the variables that `gathered` gave, on every worker."""

        # Sums of pieces that are zero but for a replica's own rows: the rows' order is then ours, on any strategy.
        def piece(variable):
            first = self._first_row()
            rows = tf.range(first, first + self._rows)[:, tf.newaxis]
            return tf.scatter_nd(rows, variable, [self._batch_size, variable.shape[1]])

        @tf.function
        def everywhere():
            def in_replica():
                pieces = [piece(variable) for variable in self._variables]
                return tf.distribute.get_replica_context().all_reduce("SUM", pieces)

            return self._strategy.run(in_replica)

        for variable, of_replicas in zip(into, everywhere()):
            variable.assign(self._strategy.experimental_local_results(of_replicas)[0])

    def spread(self, whole):
        """Gives every replica its rows of the variables `whole`, the reverse of `gather`."""
        values = [variable.read_value() for variable in whole]

        @tf.function
        def everywhere():
            def in_replica():
                first = self._first_row()
                for variable, value in zip(self._variables, values):
                    variable.assign(value[first : first + self._rows])

            self._strategy.run(in_replica)

        everywhere()

    def _first_row(self):
        return tf.distribute.get_replica_context().replica_id_in_sync_group * self._rows


class StatefulTrainingModel(TrainingModel):
    """Fits a `network` from [tokens, *states] to [logits, *states] on the windows of `data.streams`.

    The states go from each window to the next of the same stream; training and evaluation keep their
    own. Accumulation splits the streams, not the windows. Make it inside the strategy's scope.

    Args:
      network: the Keras model.
      accumulation_steps: micro-batches in one update.
      metrics_in_training: whether training steps update the metrics too.
      batch_size, evaluation_batch_size: streams over all replicas.
    """

    def __init__(self, network, accumulation_steps=1, metrics_in_training=False, *, batch_size, evaluation_batch_size):
        super().__init__(network, accumulation_steps, metrics_in_training)
        sizes = [state.shape[-1] for state in network.inputs[1:]]
        self._carried = CarriedState(sizes, batch_size)
        self._carried_in_evaluation = CarriedState(sizes, evaluation_batch_size)

    def call(self, inputs, training=None):
        carried = self._carried if training else self._carried_in_evaluation
        before = carried.read(inputs["stream"], inputs["fresh"])
        logits, *after = self.network([inputs["tokens"], *before], training=training)
        carried.write(inputs["stream"], after)
        return logits

    def checkpointing(self):
        """Saves the states of all streams as one; any number of replicas that divides them may read them again."""
        # Evaluation begins afresh each time: nothing of it is worth keeping.
        whole = self._carried.gathered()
        inherited = super().checkpointing()

        def before_save():
            self._carried.gather(whole)
            inherited.get("before_save", lambda: None)()

        def after_restore():
            self._carried.spread(whole)
            inherited.get("after_restore", lambda: None)()

        more = {"carried_state": whole, **inherited.get("more", {})}
        return {"more": more, "before_save": before_save, "after_restore": after_restore}
