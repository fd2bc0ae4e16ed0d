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
from collections.abc import Callable
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


# AutoGraph finds no control flow here, and takes a tenth of a second to do so in each process.
@tf.autograph.experimental.do_not_convert
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
    run_key = tf.broadcast_to(splitmix64(tf.constant(seed, tf.int64) + 1), tf.shape(epoch_key))
    # The public tf.random.experimental.index_shuffle takes one seed a call only; the op takes one an index.
    shuffled = tf.raw_ops.RandomIndexShuffle(
        index=flat % dataset_size,
        seed=tf.stack([run_key, epoch_key, splitmix64(epoch_key + run_key)], axis=-1),
        max_index=tf.fill(tf.shape(flat), tf.cast(dataset_size - 1, tf.int64)),
        rounds=_ROUNDS,
    )
    return tf.reshape(shuffled, tf.shape(positions))


class Chunks:
    """Runs of consecutive records that are read at once: of `chunk_size`, or fewer at the end of a file.

    Chunks are numbered through all files, as records are. Memory is that of the files' counts, not of the chunks.

    Args:
      counts: int64 [files], the records in each file.
      chunk_size: records in a chunk.

    Attributes:
      count: the number of chunks.
      records: the number of records in all chunks.
    """

    def __init__(self, counts: np.ndarray, chunk_size: int) -> None:
        in_files = -(-counts // chunk_size)
        self.chunk_size, self.count, self.records = chunk_size, int(in_files.sum()), int(counts.sum())
        # int64 [files]: the number after a file's last record, and the same of its chunks.
        self._ends, self._chunk_ends = np.cumsum(counts), np.cumsum(in_files)
        # Its first record and chunk.
        self._begins, self._chunk_begins = self._ends - counts, self._chunk_ends - in_files

    def extent(self, numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """(first, size) of chunks, by their numbers: int64 [n] each, the first record and the number of records."""
        file = tf.searchsorted(tf.constant(self._chunk_ends), numbers, side="right", out_type=tf.int64)
        of_files = (self._begins, self._ends, self._chunk_begins)
        begins, ends, chunk_begins = (tf.gather(tf.constant(each), file) for each in of_files)
        first = begins + (numbers - chunk_begins) * self.chunk_size
        return first, tf.minimum(ends - first, self.chunk_size)

    def ends_in(self, order: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
        """The place in an order of all chunks at which each one's records end: int64 [chunks].

        Args:
          order: a permutation of all chunks: function from indices, int64 [n], to numbers of chunks.
        """
        _, sizes = self.extent(order(tf.range(self.count, dtype=tf.int64)))
        return tf.cumsum(sizes)

    def pieces(
        self, order: Callable[[tf.Tensor], tf.Tensor], ends: tf.Tensor, start: tf.Tensor, stop: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The pieces to read for the positions [start, stop) of an order, in time that grows with stop - start alone.

        Args:
          order: as for `ends_in`.
          ends: its `ends_in`.
          start, stop: int64 scalars.

        Returns:
          (first, size): int64 [pieces], the first record of each piece and its number of records, at least 1;
          a piece is a chunk or, at either end, a part of one.
        """
        sides = tf.stack([start, stop - 1])
        first_chunk, last_chunk = tf.unstack(tf.searchsorted(ends, sides, side="right", out_type=tf.int64))
        chunks = tf.range(first_chunk, tf.where(start < stop, last_chunk + 1, first_chunk))
        first, size = self.extent(order(chunks))
        ends = tf.gather(ends, chunks)
        begins = ends - size
        skipped = tf.maximum(start - begins, 0)
        return first + skipped, tf.minimum(ends, stop) - begins - skipped


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

    def steps(self, size: int) -> int:
        """The number of global batches that hold `size` examples, the last one padded."""
        return -(-size // self.batch_size)

    def before(self, position: Any) -> Any:
        """The number of the first `position` positions that belong to the host; ints or int64 tensors."""
        return self._before(position, self.host + 1) - self._before(position, self.host)

    def _before(self, position: Any, hosts: int) -> Any:
        """The number of the first `position` positions that belong to the first `hosts` hosts."""
        own, rest = hosts * self.per_host, position % self.batch_size
        rest = tf.minimum(rest, own) if tf.is_tensor(rest) else min(rest, own)
        return position // self.batch_size * own + rest

    def of_epoch(self, epoch: Any, size: int) -> tuple[Any, Any]:
        """(start, stop) of the host's slice of an epoch of `size` records, within the epoch's order."""
        first, last = epoch * size, (epoch + 1) * size
        # The hosts before have theirs first.
        start, stop = (self._before(last, hosts) - self._before(first, hosts) for hosts in (self.host, self.host + 1))
        return start, stop


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

    def ends(self, epoch: tf.Tensor) -> tf.Tensor:
        """The `Chunks.ends_in` of an epoch, an int64 scalar: in time that grows with the number of all chunks."""
        return self.chunks.ends_in(self._chunk_order(epoch))

    def pieces(self, epoch: tf.Tensor, window: tf.Tensor, ends: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The pieces to read for a window, as `Chunks.pieces`; int64 scalar tensors, and the epoch's `ends`."""
        start, stop = self.host_slice.of_epoch(epoch, self.chunks.records)
        start += window * self.window
        return self.chunks.pieces(self._chunk_order(epoch), ends, start, tf.minimum(start + self.window, stop))

    def _chunk_order(self, epoch: tf.Tensor) -> Callable[[tf.Tensor], tf.Tensor]:
        chunks = self.chunks.count
        return lambda indices: examples_at(epoch * chunks + indices, seed=2 * self.seed, dataset_size=chunks)

    def shuffled(self, epoch: tf.Tensor, window: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
        """The order of the `size` records within a window: int64 [size]."""
        # A key of its own for each window of each epoch: no epoch has more windows than records.
        key = epoch * self.chunks.records + window
        return examples_at(key * size + tf.range(size, dtype=tf.int64), seed=2 * self.seed + 1, dataset_size=size)
