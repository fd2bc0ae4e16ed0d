"""The order in which examples are read: shuffled, deterministic in (seed, position), and resumed without a replay.

`examples_at` shuffles single examples, for data in memory or read at random. `RecordOrder` shuffles chunks, runs of
records that lie beside each other in a file, and then the records within windows of many chunks: disks and object
stores get long sequential reads. Own code, since tf.data's shuffle depends on its buffer's history: it could resume
in mid-epoch only by reading everything before.

Positions count examples from the start of training: step `s` with global batch B covers the positions
[s * B, (s + 1) * B). Epoch e covers [e * N, (e + 1) * N) and is a permutation of the N examples, so each epoch visits
each example exactly once even where batches straddle its end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

# Four rounds, the op's default, leave neighbouring seeds visibly correlated on 60,000 indices; sixteen do not.
_ROUNDS = 16


def splitmix64(value: tf.Tensor) -> tf.Tensor:
    """SplitMix64's finaliser of int64: spreads small integers over 64 bits, since small keys shuffle badly."""
    value = tf.bitcast(value, tf.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        value = tf.bitwise.bitwise_xor(value, tf.bitwise.right_shift(value, tf.constant(shift, tf.uint64)))
        value *= tf.constant(factor, tf.uint64)
    value = tf.bitwise.bitwise_xor(value, tf.bitwise.right_shift(value, tf.constant(31, tf.uint64)))
    return tf.bitcast(value, tf.int64)


def examples_at(positions: tf.Tensor, *, seed: int, dataset_size: int | tf.Tensor) -> tf.Tensor:
    """The indices of the examples at `positions`, in constant time each.

    Args:
      positions: int64 tensor of any shape.
      seed: the run's seed.
      dataset_size: N, at least 1; an int or an int64 scalar.

    Returns:
      int64 tensor of the same shape, values in [0, N).
    """
    flat = tf.reshape(positions, [-1])
    epoch_key = splitmix64(flat // dataset_size + 1)
    run_key = splitmix64(tf.constant(seed, tf.int64) + 1)
    # The public tf.random.experimental.index_shuffle takes one seed a call only; the op takes one an index.
    shuffled = tf.raw_ops.RandomIndexShuffle(
        index=flat % dataset_size,
        seed=tf.stack([tf.fill(tf.shape(flat), run_key), epoch_key, splitmix64(epoch_key + run_key)], axis=-1),
        max_index=tf.fill(tf.shape(flat), tf.cast(dataset_size - 1, tf.int64)),
        rounds=_ROUNDS,
    )
    return tf.reshape(shuffled, tf.shape(positions))


@dataclasses.dataclass(frozen=True)
class Chunks:
    """Runs of consecutive records that are read at once.

    Attributes:
      first: int64 [chunks], the first record of each; records are numbered through all files.
      size: int64 [chunks], its number of records.
    """

    first: np.ndarray
    size: np.ndarray

    @classmethod
    def of_files(cls, counts: Sequence[int] | np.ndarray, chunk_size: int) -> Chunks:
        """Chunks of `chunk_size` records, or fewer at the end of a file.

        Args:
          counts: the number of records in each file.
        """
        firsts, sizes, start = [], [], 0
        for count in counts:
            within = np.arange(0, count, chunk_size, dtype=np.int64)
            firsts.append(start + within)
            sizes.append(np.minimum(chunk_size, count - within))
            start += count
        return cls(np.concatenate(firsts), np.concatenate(sizes))

    @property
    def records(self) -> int:
        """The number of records in all chunks."""
        return int(self.size.sum())

    def pieces(self, chunk_order: tf.Tensor, start: tf.Tensor, stop: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """What to read for the positions [start, stop), with the chunks in `chunk_order`.

        Args:
          chunk_order: int64 [chunks].
          start, stop: int64 scalars.

        Returns:
          (first, size): int64 [pieces], the first record of each piece and its number of records, at least 1;
          a piece is a chunk or, at either end, a part of one.
        """
        sizes = tf.gather(tf.constant(self.size), chunk_order)
        ends = tf.cumsum(sizes)
        begins = ends - sizes
        overlap = tf.where((ends > start) & (begins < stop))[:, 0]
        begins, ends = tf.gather(begins, overlap), tf.gather(ends, overlap)
        skipped = tf.maximum(start - begins, 0)
        first = tf.gather(tf.constant(self.first), tf.gather(chunk_order, overlap)) + skipped
        return first, tf.minimum(ends, stop) - begins - skipped


@dataclasses.dataclass(frozen=True)
class HostSlice:
    """One host's slice of an endless sequence of global batches.

    Each batch is split into equal, contiguous slices, one per host. Epochs need not be whole batches, so a host's
    number of examples in an epoch varies by up to one slice.

    Attributes:
      batch_size: examples in a global batch, a multiple of `hosts`.
      hosts: the number of hosts.
      host: this host's index, from 0.
    """

    batch_size: int
    hosts: int
    host: int

    @property
    def per_host(self) -> int:
        """A host's examples in one global batch."""
        return self.batch_size // self.hosts

    def before(self, position: Any, host: int | None = None) -> Any:
        """How many of the first `position` positions belong to the host; ints or int64 tensors."""
        host = self.host if host is None else host
        within = position % self.batch_size - host * self.per_host
        rest = (
            tf.clip_by_value(within, 0, self.per_host) if tf.is_tensor(within) else min(max(within, 0), self.per_host)
        )
        return position // self.batch_size * self.per_host + rest

    def of_epoch(self, epoch: Any, size: int) -> tuple[Any, Any]:
        """(start, stop) of the host's slice of an epoch of `size` records, within the epoch's order."""
        first, last = epoch * size, (epoch + 1) * size
        counts = [self.before(last, host) - self.before(first, host) for host in range(self.host + 1)]
        return sum(counts[:-1]), sum(counts)


@dataclasses.dataclass(frozen=True)
class RecordOrder:
    """The training order of one host.

    Attributes:
      chunks: Chunks of all files.
      host_slice: HostSlice of this host.
      seed: the run's.
      window: records that are shuffled together, and held in memory.
    """

    chunks: Chunks
    host_slice: HostSlice
    seed: int
    window: int

    def position(self, step: int) -> tuple[int, int, int]:
        """Where `step` begins, in constant time.

        Returns:
          (epoch, window, skip): the epoch, the window within this host's slice of it, and how many records of the
          window earlier steps have taken.
        """
        taken, size = step * self.host_slice.per_host, self.chunks.records
        # A host may finish its slice of an epoch before the global position does.
        epoch = step * self.host_slice.batch_size // size
        while self.host_slice.before((epoch + 1) * size) <= taken:
            epoch += 1
        within = taken - self.host_slice.before(epoch * size)
        return epoch, within // self.window, within % self.window

    def windows(self, epoch: tf.Tensor) -> tf.Tensor:
        """The number of windows in this host's slice of an epoch; int64 scalars."""
        start, stop = self.host_slice.of_epoch(epoch, self.chunks.records)
        return (stop - start + self.window - 1) // self.window

    def pieces(self, epoch: tf.Tensor, window: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """What to read for a window, as `Chunks.pieces`; int64 scalar tensors."""
        chunks = len(self.chunks.size)
        chunk_order = examples_at(
            epoch * chunks + tf.range(chunks, dtype=tf.int64), seed=2 * self.seed, dataset_size=chunks
        )
        start, stop = self.host_slice.of_epoch(epoch, self.chunks.records)
        start += window * self.window
        return self.chunks.pieces(chunk_order, start, tf.minimum(start + self.window, stop))

    def shuffled(self, epoch: tf.Tensor, window: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
        """The order of the `size` records within a window: int64 [size]."""
        # A key of its own for each window of each epoch: no epoch has more windows than records.
        key = epoch * self.chunks.records + window
        return examples_at(key * size + tf.range(size, dtype=tf.int64), seed=2 * self.seed + 1, dataset_size=size)
