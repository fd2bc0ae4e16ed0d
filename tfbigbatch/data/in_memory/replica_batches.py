"""Each replica's batches, from the positions that a global batch covers."""

import tensorflow as tf


def of_positions(batch_of, context, *, batch_size, first_step, last_step):
    """Data set of `batch_of(positions)` for each step and each replica of this worker, which take turns.

    Args:
      batch_of: function of positions, int64 [batch_size / replicas]: a global batch is batch_size of
        them in a row, and the replicas of all workers share it in their order.
      context: tf.distribute.InputContext of this worker.
      batch_size: positions in one global batch; a multiple of the number of replicas.
      first_step, last_step: the batches [first_step, last_step) that the data set covers.
    """
    replicas = context.num_replicas_in_sync // context.num_input_pipelines
    first_replica = context.input_pipeline_id * replicas
    per_replica = batch_size // context.num_replicas_in_sync

    def batch(turn):
        step, replica = turn // replicas, turn % replicas + first_replica
        return batch_of(step * batch_size + replica * per_replica + tf.range(per_replica, dtype=tf.int64))

    turns = tf.data.Dataset.range(first_step * replicas, last_step * replicas)
    return turns.map(batch, num_parallel_calls=2, deterministic=True).prefetch(2)
