"""Reads records of TFRecord files by number, in training or evaluation order; a damaged record costs no other.

Own code, since TensorFlow's reader gives up the rest of a file after a record with a wrong checksum. The index
says where each record begins, so reading can resume at the next one.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tfbigbatch.data.records.manifest import Split
from tfbigbatch.data.records.order import Chunks, HostSlice, RecordOrder
from tfbigbatch.data.records.tfrecord import NO_RECORD

# What is read ahead of the record asked for: little, as a piece ends soon.
_BUFFER_BYTES = 256 * 1024
_PARALLEL_READS = 4
CHUNK_SIZE = 64


class _RecordsFrom(tf.data.Dataset):
    """The records of a file from a byte on; the public tf.data.TFRecordDataset has no such argument."""

    def __init__(self, file: tf.Tensor, offset: tf.Tensor) -> None:
        super().__init__(
            tf.raw_ops.TFRecordDatasetV2(
                filenames=file[None], compression_type="", buffer_size=_BUFFER_BYTES, byte_offsets=offset[None]
            )
        )

    def _inputs(self) -> list[tf.data.Dataset]:
        return []

    @property
    def element_spec(self) -> tf.TensorSpec:
        return tf.TensorSpec([], tf.string)


class RecordReader:
    """Reads records by number.

    A record is never empty, so an empty string stands for one that cannot be read.

    Args:
      split: of the manifest.
    """

    def __init__(self, split: Split) -> None:
        self._files, self._offsets = tf.constant(split.files), tf.constant(split.offsets)
        self._ends = tf.constant(np.cumsum(split.counts))
        self.chunks = Chunks(split.counts, CHUNK_SIZE)

    def records(self, pieces: tuple[tf.Tensor, tf.Tensor]) -> tf.data.Dataset:
        """The records of some pieces, an element for each piece.

        Args:
          pieces: (first, size), int64 [pieces] each: numbers of the first records, and how many, at most
            CHUNK_SIZE; a piece lies within a file.

        Returns:
          tf.data.Dataset of (records, numbers): string and int64, [size of the piece].
        """
        return tf.data.Dataset.from_tensor_slices(pieces).map(
            lambda first, size: (self._piece(first, size), first + tf.range(size)),
            num_parallel_calls=_PARALLEL_READS,
            deterministic=True,
        )

    def _piece(self, first: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
        file = tf.gather(self._files, tf.searchsorted(self._ends, first[None], side="right")[0])
        offsets = self._offsets[first : first + size]
        found = _up_to_damage(file, offsets[0], size)
        damaged = tf.reduce_any(tf.strings.length(found) == 0)
        return tf.cond(
            damaged,
            lambda: tf.map_fn(lambda offset: _up_to_damage(file, offset, 1)[0], offsets, fn_output_signature=tf.string),
            lambda: found,
        )


def _up_to_damage(file: tf.Tensor, offset: tf.Tensor, size: int | tf.Tensor) -> tf.Tensor:
    """`size` records of a file from a byte on; empty strings from the first damaged one on."""
    found = _RecordsFrom(file, offset).ignore_errors()
    rest = tf.data.Dataset.from_tensors("").repeat(size)
    return found.concatenate(rest).take(size).batch(size).get_single_element()


def shuffled_records(reader: RecordReader, order: RecordOrder, first_step: int) -> tf.data.Dataset:
    """A host's training records from a step on, without end.

    Args:
      reader: RecordReader.
      order: RecordOrder of the reader's chunks.
      first_step: the step of the first record.

    Returns:
      tf.data.Dataset of (records, numbers, epochs), an element for each window: string [m] and twice int64 [m]. An
      empty string stands for a record that cannot be read.
    """
    first_epoch, first_window, taken = order.position(first_step)

    def windows_of(epoch: tf.Tensor) -> tf.data.Dataset:
        ends = order.ends(epoch)
        first = tf.where(epoch == first_epoch, tf.constant(first_window, tf.int64), 0)
        return tf.data.Dataset.range(first, order.windows(epoch)).map(lambda window: (epoch, window, ends))

    def read_window(epoch: tf.Tensor, window: tf.Tensor, ends: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        first, size = order.pieces(epoch, window, ends)
        total = tf.reduce_sum(size)
        records, numbers = reader.records((first, size)).rebatch(total).get_single_element()
        skipped = tf.where((epoch == first_epoch) & (window == first_window), taken, 0)
        indices = order.shuffled(epoch, window, total)[skipped:]
        return tf.gather(records, indices), tf.gather(numbers, indices), tf.fill(tf.shape(indices), epoch)

    # One window is read while another is taken from.
    return tf.data.Dataset.range(first_epoch, tf.int64.max).flat_map(windows_of).map(read_window).prefetch(1)


def records_in_order(reader: RecordReader, host_slice: HostSlice) -> tf.data.Dataset:
    """A host's slice of every record once, in order, padded to whole batches.

    Args:
      reader: RecordReader.
      host_slice: HostSlice of this host.

    Returns:
      tf.data.Dataset of (records, numbers, epochs), runs of them: string [m] and twice int64 [m], epochs of 0; padding
      is an empty string with the number NO_RECORD.
    """
    chunks, size, ends = reader.chunks, reader.chunks.records, reader.chunks.ends_in(tf.identity)

    def of_step(step: tf.Tensor) -> tf.data.Dataset:
        start = tf.minimum(step * host_slice.batch_size + host_slice.host * host_slice.per_host, size)
        stop = tf.minimum(start + host_slice.per_host, size)
        padding = (host_slice.per_host - (stop - start))[None]
        pieces = chunks.pieces(tf.identity, ends, start, stop)
        nothing = tf.data.Dataset.from_tensors(
            (tf.fill(padding, ""), tf.fill(padding, tf.constant(NO_RECORD, tf.int64)))
        )
        return reader.records(pieces).concatenate(nothing)

    runs = tf.data.Dataset.range(host_slice.steps(size)).flat_map(of_step)
    return runs.map(lambda records, numbers: (records, numbers, tf.zeros_like(numbers)))
