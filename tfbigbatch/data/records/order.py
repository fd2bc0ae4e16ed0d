"""The order in which records are read: well mixed, yet in long reads, and found again without a replay.

Records that lie beside each other in a file form a chunk. An epoch puts the chunks of all files in a
random order, deals them out to the hosts, and each host shuffles its records in windows of many
chunks. Everything is a pure function of (seed, epoch): a run that starts in mid-epoch reads the window
that it is in, and nothing before it.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from tfbigbatch.data.records import example_order


@dataclasses.dataclass(frozen=True)
class Chunks:
    """Runs of records that are read at once.

    Attributes:
      first: int64 [chunks], the first record of each; records are numbered through all files.
      size: int64 [chunks], its records.
    """

    first: np.ndarray
    size: np.ndarray

    @classmethod
    def of_files(cls, counts, chunk_size):
        """Chunks of `chunk_size` records, or fewer at the end of a file.

        Args:
          counts: the records of each file.
        """
        firsts, sizes, start = [], [], 0
        for count in counts:
            within = np.arange(0, count, chunk_size, dtype=np.int64)
            firsts.append(start + within)
            sizes.append(np.minimum(chunk_size, count - within))
            start += count
        return cls(np.concatenate(firsts), np.concatenate(sizes))

    @property
    def records(self):
        """The records of all chunks together."""
        return int(self.size.sum())

    def pieces(self, chunk_order, start, stop):
        """What to read for the places [start, stop) of the records, with the chunks in `chunk_order`.

        Args:
          chunk_order: int64 [chunks].
          start, stop: int64 scalars.

        Returns:
          (first, size): int64 [pieces], the first record of each piece and its records, at least 1;
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
class HostShare:
    """Which places of an endless sequence of global batches are a host's.

    A batch goes to the hosts in equal, contiguous parts. Epochs need not be whole batches, so a host's share
    of an epoch differs by up to a part from one to the next.

    Attributes:
      batch_size: examples in a global batch, a multiple of `hosts`.
      hosts: hosts that share it.
      host: this one's number, from 0.
    """

    batch_size: int
    hosts: int
    host: int

    @property
    def part(self):
        """A host's examples in one global batch."""
        return self.batch_size // self.hosts

    def before(self, position, host=None):
        """How many of the first `position` places are the host's; integers or int64 tensors."""
        host = self.host if host is None else host
        within = position % self.batch_size - host * self.part
        rest = tf.clip_by_value(within, 0, self.part) if tf.is_tensor(within) else min(max(within, 0), self.part)
        return position // self.batch_size * self.part + rest

    def of_epoch(self, epoch, size):
        """(start, stop) of the host's part of an epoch of `size` records, within the epoch's order."""
        first, last = epoch * size, (epoch + 1) * size
        shares = [self.before(last, host) - self.before(first, host) for host in range(self.host + 1)]
        return sum(shares[:-1]), sum(shares)


@dataclasses.dataclass(frozen=True)
class RecordOrder:
    """The training order of one host.

    Attributes:
      chunks: Chunks of all files.
      share: HostShare.
      seed: the run's.
      window: records that are shuffled together, and held in memory.
    """

    chunks: Chunks
    share: HostShare
    seed: int
    window: int

    def place(self, step):
        """Where update `step` begins, in constant time.

        Returns:
          (epoch, window, skip): integers; the epoch, the window in this host's share of it, and the
          records of the window that updates before have taken.
        """
        taken, size = step * self.share.part, self.chunks.records
        # A host may finish its share of an epoch before the global position does.
        epoch = step * self.share.batch_size // size
        while self.share.before((epoch + 1) * size) <= taken:
            epoch += 1
        within = taken - self.share.before(epoch * size)
        return epoch, within // self.window, within % self.window

    def windows(self, epoch):
        """The number of windows in this host's share of an epoch; int64 tensors."""
        start, stop = self.share.of_epoch(epoch, self.chunks.records)
        return (stop - start + self.window - 1) // self.window

    def pieces(self, epoch, window):
        """What to read for a window, as `Chunks.pieces`; int64 scalar tensors."""
        chunks = len(self.chunks.size)
        chunk_order = example_order.examples_at(
            epoch * chunks + tf.range(chunks, dtype=tf.int64), seed=2 * self.seed, dataset_size=chunks
        )
        start, stop = self.share.of_epoch(epoch, self.chunks.records)
        start += window * self.window
        return self.chunks.pieces(chunk_order, start, tf.minimum(start + self.window, stop))

    def shuffled(self, epoch, window, size):
        """The order of the `size` records within a window: int64 [size]."""
        # A key of its own for each window of each epoch: no epoch has more windows than records.
        key = epoch * self.chunks.records + window
        return example_order.examples_at(
            key * size + tf.range(size, dtype=tf.int64), seed=2 * self.seed + 1, dataset_size=size
        )
