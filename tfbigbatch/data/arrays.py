"""Data sets that fit in memory: per-replica batches from (seed, step), and padded evaluation."""

import dataclasses

import numpy as np
import tensorflow as tf

from tfbigbatch.data import order
from tfbigbatch.errors import InputError


@dataclasses.dataclass(frozen=True)
class Arrays:
    """Examples in memory.

    Attributes:
      features: array of [examples, ...].
      labels: integer array of [examples].
      classes: labels are in [0, classes).
      source: where they come from, for errors and the run's banner.
    """

    features: np.ndarray
    labels: np.ndarray
    classes: int
    source: str

    def __post_init__(self):
        if len(self.features) != len(self.labels):
            raise InputError(
                f"{self.source}: {len(self.features)} examples but {len(self.labels)} labels; "
                "the two files do not belong together."
            )
        if len(self.labels) == 0:
            raise InputError(f"{self.source}: no examples.")
        wrong = np.flatnonzero((self.labels < 0) | (self.labels >= self.classes))
        if wrong.size:
            first = int(wrong[0])
            raise InputError(
                f"{self.source}: label {int(self.labels[first])} of example {first} is out of range; "
                f"expected 0 to {self.classes - 1} ({wrong.size} such labels)."
            )

    def __len__(self):
        return len(self.labels)

    def training_batches(self, context, *, batch_size, seed, first_step, last_step):
        """Batches for this worker's replicas, in the order of `order.examples_at`.

        Args:
          context: tf.distribute.InputContext of this worker.
          batch_size: examples in one update over all replicas; a multiple of their number.
          first_step, last_step: the updates [first_step, last_step) that the data set covers.

        Returns:
          tf.data.Dataset of (features, labels), each of batch_size / replicas examples; the
          replicas of this worker take turns.
        """
        features, labels = tf.constant(self.features), tf.constant(self.labels)

        def batch_of(positions):
            indices = order.examples_at(positions, seed=seed, dataset_size=len(self))
            return tf.gather(features, indices), tf.gather(labels, indices)

        return _batches(batch_of, context, batch_size, first_step, last_step)

    def evaluation_batches(self, context, *, batch_size):
        """Every example once, in order, padded to whole batches.

        Returns:
          tf.data.Dataset of (features, labels, mask): the float32 mask is 1 for an example and 0
          for padding. It covers `evaluation_steps(batch_size)` updates.
        """
        features, labels = tf.constant(self.features), tf.constant(self.labels)

        def batch_of(positions):
            indices = tf.minimum(positions, len(self) - 1)
            mask = tf.cast(positions < len(self), tf.float32)
            return tf.gather(features, indices), tf.gather(labels, indices), mask

        return _batches(batch_of, context, batch_size, 0, self.evaluation_steps(batch_size))

    def evaluation_steps(self, batch_size):
        """The number of batches that hold every example once."""
        return -(-len(self) // batch_size)


def _batches(batch_of, context, batch_size, first_step, last_step):
    """Data set of `batch_of(positions)` for each step and each replica of this worker, which take turns.

    Positions are int64, [batch_size / replicas]: a global batch is batch_size of them in a row, and
    the replicas of all workers share it in their order.
    """
    replicas = context.num_replicas_in_sync // context.num_input_pipelines
    first_replica = context.input_pipeline_id * replicas
    per_replica = batch_size // context.num_replicas_in_sync

    def batch(turn):
        step, replica = turn // replicas, turn % replicas + first_replica
        return batch_of(step * batch_size + replica * per_replica + tf.range(per_replica, dtype=tf.int64))

    turns = tf.data.Dataset.range(first_step * replicas, last_step * replicas)
    return turns.map(batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).prefetch(tf.data.AUTOTUNE)
