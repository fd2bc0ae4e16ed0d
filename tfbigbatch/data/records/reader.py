"""Records of TFRecord files by their number, where a damaged one costs no other.

TensorFlow's reader gives up the rest of a file after a record whose checksum is wrong. Here it
begins anew at the next one: where each record lies is known beforehand.
"""

import numpy as np
import tensorflow as tf

from tfbigbatch.data.records.order import Chunks

# What is read ahead of the record asked for: little, as a piece ends soon.
_BUFFER_BYTES = 256 * 1024
_PARALLEL_READS = 4
CHUNK_SIZE = 64


class _RecordsFrom(tf.data.Dataset):
    """The records of a file from a byte on; the public data set has no such argument."""

    def __init__(self, file, offset):
        super().__init__(
            tf.raw_ops.TFRecordDatasetV2(
                filenames=file[None], compression_type="", buffer_size=_BUFFER_BYTES, byte_offsets=offset[None]
            )
        )

    def _inputs(self):
        return []

    @property
    def element_spec(self):
        return tf.TensorSpec([], tf.string)


class RecordReader:
    """Reads records by number.

    A record is never empty, so an empty string stands for one that cannot be read.

    Args:
      files: paths, in their order.
      counts: int64 [files], the records of each.
      offsets: int64 [records], the byte in its file where each record's frame begins.
      cache: keep in memory what was read, and read it once.
    """

    def __init__(self, files, counts, offsets, cache=False):
        self._files = tf.constant(list(files))
        self._ends = tf.constant(np.cumsum(counts), tf.int64)
        self._offsets = tf.constant(offsets, tf.int64)
        self._cache = tf.lookup.experimental.MutableHashTable(tf.int64, tf.string, "") if cache else None
        self.chunks = Chunks.of_files(counts, CHUNK_SIZE)

    def records(self, pieces):
        """The records of some pieces, an element for each piece.

        Args:
          pieces: (first, size), int64 [pieces] each: numbers of the first records, and how many, at most
            CHUNK_SIZE; a piece lies within a file.

        Returns:
          tf.data.Dataset of (records, numbers): string and int64, [size of the piece].
        """
        return tf.data.Dataset.from_tensor_slices(pieces).map(
            lambda first, size: (self._cached(first, size), first + tf.range(size)),
            num_parallel_calls=_PARALLEL_READS,
            deterministic=True,
        )

    def _cached(self, first, size):
        if self._cache is None:
            return self._piece(first, size)
        numbers = first + tf.range(size)
        known = self._cache.lookup(numbers)

        def read():
            found = self._piece(first, size)
            # A record that could not be read now may be there when it is asked for again.
            there = tf.where(tf.strings.length(found) > 0)[:, 0]
            with tf.control_dependencies([self._cache.insert(tf.gather(numbers, there), tf.gather(found, there))]):
                return tf.identity(found)

        return tf.cond(tf.reduce_any(tf.strings.length(known) == 0), read, lambda: known)

    def _piece(self, first, size):
        file = tf.gather(self._files, tf.searchsorted(self._ends, first[None], side="right")[0])
        offsets = self._offsets[first : first + size]
        found = _up_to_damage(file, offsets[0], size)
        damaged = tf.reduce_any(tf.strings.length(found) == 0)
        return tf.cond(
            damaged,
            lambda: tf.map_fn(lambda offset: _up_to_damage(file, offset, 1)[0], offsets, fn_output_signature=tf.string),
            lambda: found,
        )


def _up_to_damage(file, offset, size):
    """`size` records of a file from a byte on; empty strings from the first damaged one on."""
    found = _RecordsFrom(file, offset).ignore_errors()
    rest = tf.data.Dataset.from_tensors("").repeat(size)
    return found.concatenate(rest).take(size).batch(size).get_single_element()
