"""Data sets that fit in memory: per-replica batches from (seed, step), and padded evaluation."""

import dataclasses
import functools

import numpy as np
import tensorflow as tf

from tfbigbatch.data.in_memory import replica_batches
from tfbigbatch.data.records import order
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

    @property
    def contents(self):
        """What there is, in words, for the run's banner."""
        return f"{len(self):,} examples"

    @property
    def tokens_per_example(self):
        """None: an example is not a text."""
        return None

    def examples_in_epoch(self, batch_size):
        """The examples in an epoch, whatever the batch: an epoch need not be whole batches."""
        del batch_size
        return len(self)

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
        arrays = self._constants

        def batch_of(positions):
            indices = order.examples_at(positions, seed=seed, dataset_size=len(self))
            return _rows(arrays, indices)

        return replica_batches.of_positions(
            batch_of, context, batch_size=batch_size, first_step=first_step, last_step=last_step
        )

    def evaluation_batches(self, context, *, batch_size):
        """Every example once, in order, padded to whole batches.

        Returns:
          tf.data.Dataset of (features, labels, mask): the float32 mask is 1 for an example and 0
          for padding. It covers `evaluation_steps(batch_size)` updates.
        """
        arrays = self._constants

        def batch_of(positions):
            indices = tf.minimum(positions, len(self) - 1)
            mask = tf.cast(positions < len(self), tf.float32)
            return (*_rows(arrays, indices), mask)

        return replica_batches.of_positions(
            batch_of, context, batch_size=batch_size, first_step=0, last_step=self.evaluation_steps(batch_size)
        )

    def evaluation_steps(self, batch_size):
        """The number of batches that hold every example once."""
        return -(-len(self) // batch_size)

    @functools.cached_property
    def _constants(self):
        """(features, labels) as tensors, in the dictionaries that they may come in.

        Made once: each replica's pipeline, of each epoch and evaluation, reads the same.
        """
        with tf.init_scope(), tf.device("CPU:0"):
            return tf.nest.map_structure(tf.constant, (self.features, self.labels))


def _rows(arrays, indices):
    return tf.nest.map_structure(lambda array: tf.gather(array, indices), arrays)
