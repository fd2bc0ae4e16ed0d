"""The order of training where the pairs of a batch are of one bucket, as a pure function of (seed, step).

`data/records/order.py` gives each epoch a random order, of which global
batches are cut; an epoch need not be whole batches.
Here the batches of an epoch are put into blocks of about equal size, and each block's examples are dealt out to its
batches anew: they are sorted by bucket (within one by the epoch's order), and each batch takes a run of them. Which
batch takes which run is random, so that short and long batches alternate. Every epoch visits each example exactly
once; a batch is the same whatever the number of hosts; and a run that resumes works out one block.

Only a batch with the end of one bucket and the beginning of the next is padded to the larger one: at most one batch
for each bucket but the last, in each block. A batch that is shared by two epochs takes its two parts from about the
same place among the lengths of either.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from tfbigbatch.data.records import order


@dataclasses.dataclass(frozen=True, eq=False)
class BucketOrder:
    """The order of all hosts together.

    Attributes:
      buckets: int32 array of [examples], each one's bucket.
      batch_size: examples in a global batch.
      seed: the run's.
      block: batches in a block, at most.
    """

    buckets: np.ndarray
    batch_size: int
    seed: int
    block: int

    def place(self, step):
        """Where update `step` begins, in constant time.

        Returns:
          (epoch, block, skip): integers; the epoch, the block in it, and the examples of the block that updates
          before have taken.
        """
        position = step * self.batch_size
        epoch = position // len(self.buckets)
        first, steps = self._steps(epoch)
        blocks = self.blocks(epoch)
        block = next(one for one in range(blocks) if step < first + (one + 1) * steps // blocks)
        return epoch, block, position - self._bounds(epoch, first + block * steps // blocks, max, min)

    def blocks(self, epoch):
        """The number of blocks in an epoch: an integer or an int64 tensor, as `epoch` is."""
        _, steps = self._steps(epoch)
        return (steps + self.block - 1) // self.block

    def examples(self, epoch, block):
        """The examples of a block, in the order in which the batches take them.

        Args:
          epoch, block: int64 scalar tensors.

        Returns:
          int64 tensor of [examples in the block]: the numbers of the examples.
        """
        first, steps = self._steps(epoch)
        blocks = self.blocks(epoch)
        begin, end = first + block * steps // blocks, first + (block + 1) * steps // blocks
        bounds = self._bounds(epoch, tf.range(begin, end + 1), tf.maximum, tf.minimum)
        sizes = bounds[1:] - bounds[:-1]
        examples = order.examples_at(
            tf.range(bounds[0], bounds[-1]), seed=2 * self.seed, dataset_size=len(self.buckets)
        )
        by_bucket = tf.argsort(tf.gather(tf.constant(self.buckets), examples), stable=True)
        batches = self._batches(epoch, block, begin, sizes)
        batch_of = tf.repeat(batches, tf.gather(sizes, batches))
        # Within a batch the epoch's order again: the replicas' parts are then alike.
        places = tf.argsort(batch_of * tf.size(examples, tf.int64) + tf.cast(by_bucket, tf.int64))
        return tf.gather(examples, tf.gather(by_bucket, places))

    def runs(self, first_step):
        """tf.data.Dataset of the examples from an update on, without end: int64 [examples], a run for each block."""
        first_epoch, first_block, taken = self.place(first_step)

        def of_block(epoch, block):
            skipped = tf.where((epoch == first_epoch) & (block == first_block), tf.constant(taken, tf.int64), 0)
            return self.examples(epoch, block)[skipped:]

        blocks = tf.data.Dataset.range(first_epoch, tf.int64.max).flat_map(
            lambda epoch: tf.data.Dataset.range(self.blocks(epoch)).map(lambda block: (epoch, block))
        )
        # One block is worked out while another is taken from.
        return blocks.skip(first_block).map(of_block).prefetch(1)

    def _steps(self, epoch):
        """(first, number) of the batches that have an example of the epoch."""
        size = len(self.buckets)
        first = epoch * size // self.batch_size
        return first, ((epoch + 1) * size - 1) // self.batch_size + 1 - first

    def _bounds(self, epoch, steps, larger, smaller):
        """The positions where batches begin, no farther out than the epoch's."""
        size = len(self.buckets)
        return smaller(larger(steps * self.batch_size, epoch * size), (epoch + 1) * size)

    def _batches(self, epoch, block, begin, sizes):
        """The batches of a block, 0 for its first, in the order of their examples' lengths: int64 [batches]."""
        count = tf.size(sizes, tf.int64)
        # A key of its own for each block of each epoch: no epoch has more blocks than examples.
        key = epoch * len(self.buckets) + block
        ranks = order.examples_at(key * count + tf.range(count), seed=2 * self.seed + 1, dataset_size=count)
        quantiles = (tf.cast(ranks, tf.float64) + 0.5) / tf.cast(count, tf.float64)
        # A batch that another epoch has a part of: a function of the step, so that both put it at about the same place.
        steps = begin + tf.range(count)
        own = tf.cast(order.splitmix64(order.splitmix64(steps) + self.seed) & ((1 << 24) - 1), tf.float64) / (1 << 24)
        return tf.cast(tf.argsort(tf.where(sizes < self.batch_size, own, quantiles)), tf.int64)
