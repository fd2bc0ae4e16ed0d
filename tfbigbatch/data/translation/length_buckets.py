"""Length buckets: a few static shapes (S, T), each pair of sentences padded to the smallest that fits; and their order.

The shapes are nested, and the last one fits every pair. A pair's bucket is the index of its shape; a batch's bucket is
the largest of its pairs'.

`records/order.py` gives each epoch a random order, cut into global batches; an epoch need not be whole batches. In a
BucketOrder the batches of an epoch are grouped into blocks of about equal size. The examples of a block are sorted by
bucket (within one, in the epoch's order) and each batch takes a run of them; which batch takes which run is random, so
that short and long batches alternate. Every epoch visits each example exactly once, a batch does not depend on the
number of hosts, and resuming computes one block.

At most one batch per bucket and block mixes two buckets and is padded to the larger. A batch shared by two epochs takes
both parts from about the same length quantile.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfbigbatch.data.records import order
from tfbigbatch.errors import InputError

# Candidate lengths on each side; the cost of the choice grows with their fourth power.
_EDGES = 32
Shapes = tuple[tuple[int, int], ...]


def choose(lengths: np.ndarray, most: int) -> Shapes:
    """The shapes with the least padding if each pair is padded to its own bucket.

    Args:
      lengths: integer [pairs, 2] of sources and targets; at least one pair.
      most: maximum number of shapes.

    Returns:
      (S, T) in increasing order; the last one is the longest source and the longest target.
    """
    if most < 1:
        raise InputError(f"most_shapes={most}: expected 1 or more.")
    # Evenly spaced up to the longest.
    edges = [
        np.unique(np.ceil(np.linspace(0, int(longest), _EDGES + 1)[1:]).astype(int)) for longest in lengths.max(axis=0)
    ]
    shapes = np.array([(source, target) for source in edges[0] for target in edges[1]])
    # Pairs that fit each shape.
    sizes = [len(side) for side in edges]
    first, second = (np.searchsorted(side, lengths[:, number]) for number, side in enumerate(edges))
    held = np.bincount(first * sizes[1] + second, minlength=sizes[0] * sizes[1]).reshape(sizes)
    held = held.cumsum(axis=0).cumsum(axis=1).reshape(-1)
    inside = (shapes[:, None] >= shapes).all(axis=2)
    # Cost of the pairs that fit one shape (row) but not a smaller one (column), if these are neighbours.
    added = np.where(inside, (held[:, None] - held) * shapes.sum(axis=1)[:, None], np.inf)
    cost, before = held * shapes.sum(axis=1).astype(float), []
    for _ in range(most - 1):
        total = added + cost
        before.append(total.argmin(axis=1))
        cost = total.min(axis=1)
    chosen = [len(shapes) - 1]
    for smaller in reversed(before):
        chosen.append(smaller[chosen[-1]])
    # A shape that gains nothing is chosen twice, or is empty.
    chosen = [shape for shape in dict.fromkeys(reversed(chosen)) if held[shape]]
    return tuple((int(source), int(target)) for source, target in shapes[chosen])


def buckets_of(lengths: np.ndarray, shapes: Sequence[tuple[int, int]]) -> np.ndarray:
    """The bucket of each pair, int32 [pairs]: the index of the smallest shape that fits it.

    Args:
      lengths: integer [pairs, 2].
      shapes: (S, T) in increasing order; the last one fits every pair.
    """
    array = np.array(shapes)
    sides = [np.searchsorted(array[:, side], lengths[:, side]) for side in range(2)]
    return np.maximum(*sides).astype(np.int32)


@dataclasses.dataclass(frozen=True, eq=False)
class BucketOrder:
    """The order over all hosts.

    Attributes:
      buckets: int32 [examples], the bucket of each.
      batch_size: examples in a global batch.
      seed: of the run.
      block: maximum batches in a block.
    """

    buckets: np.ndarray
    batch_size: int
    seed: int
    block: int

    @functools.cached_property
    def _buckets(self) -> tf.Tensor:
        # Made outside of any graph: as a constant in one, TensorFlow copies and hashes it for each pipeline.
        with tf.init_scope():
            return tf.constant(self.buckets)

    def position(self, step: int) -> tuple[int, int, int]:
        """(epoch, block, examples of the block used by earlier steps) at which `step` begins, in constant time."""
        position = step * self.batch_size
        epoch = position // len(self.buckets)
        first, steps = self._steps(epoch)
        blocks = self.blocks(epoch)
        block = next(one for one in range(blocks) if step < first + (one + 1) * steps // blocks)
        return epoch, block, position - self._bounds(epoch, first + block * steps // blocks, max, min)

    def blocks(self, epoch: Any) -> Any:
        """The number of blocks in an epoch; int or int64 tensor, like `epoch`."""
        _, steps = self._steps(epoch)
        return (steps + self.block - 1) // self.block

    def examples(self, epoch: tf.Tensor, block: tf.Tensor) -> tf.Tensor:
        """The example numbers of a block in batch order, int64 [examples]; `epoch` and `block` are int64 scalars."""
        first, steps = self._steps(epoch)
        blocks = self.blocks(epoch)
        begin, end = (first + number * steps // blocks for number in (block, block + 1))
        bounds = self._bounds(epoch, tf.range(begin, end + 1), tf.maximum, tf.minimum)
        sizes = bounds[1:] - bounds[:-1]
        examples = order.examples_at(
            tf.range(bounds[0], bounds[-1]), seed=2 * self.seed, dataset_size=len(self.buckets)
        )
        # Partitions in place of sorts: linear in the examples, of which every host orders those of all.
        positions = tf.range(tf.size(examples, tf.int64))
        by_bucket = _partitioned(positions, tf.gather(self._buckets, examples), int(self.buckets.max()) + 1)
        batches = self._batches(epoch, block, begin, sizes)
        batch_of = tf.repeat(batches, tf.gather(sizes, batches))
        batch_of_position = tf.scatter_nd(by_bucket[:, tf.newaxis], batch_of, [tf.size(examples, tf.int64)])
        # Within a batch in the epoch's order, so that the replicas get similar parts.
        return _partitioned(examples, tf.cast(batch_of_position, tf.int32), self.block)

    def runs(self, first_step: int) -> tf.data.Dataset:
        """Endless dataset of the example numbers from a step on: int64 [examples] for each block."""
        first_epoch, first_block, taken = self.position(first_step)

        def of_block(epoch: tf.Tensor, block: tf.Tensor) -> tf.Tensor:
            skipped = tf.where((epoch == first_epoch) & (block == first_block), tf.constant(taken, tf.int64), 0)
            return self.examples(epoch, block)[skipped:]

        blocks = tf.data.Dataset.range(first_epoch, tf.int64.max).flat_map(
            lambda epoch: tf.data.Dataset.range(self.blocks(epoch)).map(lambda block: (epoch, block))
        )
        # Computes one block while another is being used.
        return blocks.skip(first_block).map(of_block).prefetch(1)

    def _steps(self, epoch: Any) -> tuple[Any, Any]:
        """(first, number) of the batches with an example of the epoch."""
        size = len(self.buckets)
        first = epoch * size // self.batch_size
        return first, ((epoch + 1) * size - 1) // self.batch_size + 1 - first

    def _bounds(self, epoch: Any, steps: Any, larger: Callable[..., Any], smaller: Callable[..., Any]) -> Any:
        """Positions at which batches begin, clipped to the epoch."""
        size = len(self.buckets)
        return smaller(larger(steps * self.batch_size, epoch * size), (epoch + 1) * size)

    def _batches(self, epoch: tf.Tensor, block: tf.Tensor, begin: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
        """The batches of a block, from 0, in the order of their examples' lengths: int64 [batches]."""
        count = tf.size(sizes, tf.int64)
        # Unique for each block of each epoch: no epoch has more blocks than examples.
        key = epoch * len(self.buckets) + block
        ranks = order.examples_at(key * count + tf.range(count), seed=2 * self.seed + 1, dataset_size=count)
        quantiles = (tf.cast(ranks, tf.float64) + 0.5) / tf.cast(count, tf.float64)
        # For a batch shared with another epoch: a function of the step, so that both give it about the same quantile.
        steps = begin + tf.range(count)
        own = tf.cast(order.splitmix64(order.splitmix64(steps) + self.seed) & ((1 << 24) - 1), tf.float64) / (1 << 24)
        return tf.cast(tf.argsort(tf.where(sizes < self.batch_size, own, quantiles)), tf.int64)


def _partitioned(values: tf.Tensor, parts: tf.Tensor, count: int) -> tf.Tensor:
    """The values of part 0, then of part 1 and so on, each part in its order; parts is int32 [n], below `count`."""
    return tf.concat(tf.dynamic_partition(values, parts, count), axis=0)
