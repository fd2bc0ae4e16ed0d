"""Sentence pairs in TFRecord files as a Dataset: batches of a few static shapes.

Each host computes the global batches from the lengths, which it keeps in memory, and reads its slice of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfbigbatch.data.records import skip_bad, tfrecord
from tfbigbatch.data.records.dataset import SplitDataset
from tfbigbatch.data.records.manifest import Split
from tfbigbatch.data.translation import length_buckets
from tfbigbatch.data.translation.length_buckets import BucketOrder
from tfbigbatch.data.translation.manifest import SIDES, Manifest
from tfbigbatch.data.translation.vocabulary import BEGIN, END
from tfbigbatch.errors import InputError


class TranslationRecords(SplitDataset):
    """One split of prepared sentence pairs.

    Training batches are (features, labels, weights), n = batch_size / replicas pairs padded to the last shape (S, T):

    - features, int32: 'source_ids' [n, S], the sentence, END, then 0; 'source_lengths' [n], with END; 'target_ids'
      [n, T], BEGIN and the sentence; 'bucket' [n], the same for the whole global batch: all of it fits
      `shapes[bucket]`, so the rest is padding that `batch_slices` cut off.
    - labels, int32 [n, T]: the next token, END, then 0.
    - weights, float32 [n, T]: 1 up to END. A damaged record is an empty source with weights 0.

    Evaluation batches are the same without 'bucket', padded with empty sources with weights 0, in `evaluation_order`.

    Args:
      split: of the manifest.
      manifest: of the prepared folder.
      most_shapes: maximum number of shapes; those of the least padding are chosen.
      block: batches over which pairs are sorted by bucket; see `BucketOrder`.
      **options: see `SplitDataset`.

    Attributes:
      shapes: (S, T) of each bucket in increasing order, END or BEGIN included; the last one fits every pair.

    Raises:
      ValueError: an argument is out of range.
    """

    def __init__(
        self, split: Split, manifest: Manifest, *, most_shapes: int = 5, block: int = 50, **options: Any
    ) -> None:
        if block < 1:
            raise InputError(f"block={block}: expected 1 or more batches.")
        super().__init__(split, **options)
        self._manifest = manifest
        # END counts; the settings leave room for it in uint16.
        self._lengths = manifest.lengths[split.name] + np.uint16(1)
        self.shapes = length_buckets.choose(self._lengths, most_shapes)
        self._buckets = length_buckets.buckets_of(self._lengths, self.shapes)
        self._block = block
        self._reader = tfrecord.RandomAccessReader(split)

    @property
    def contents(self) -> str:
        shapes = ", ".join(f"{source} x {target}" for source, target in self.shapes)
        return (
            f"{len(self):,} pairs of sentences in {len(self._split.files):,} files, "
            f"{len(self._manifest.vocabulary):,} pieces in the vocabulary, shapes {shapes}"
        )

    @property
    def tokens_per_example(self) -> float:
        """Mean number of target tokens in a pair, with END and without padding."""
        return float(self._lengths[:, 1].mean())

    @property
    def batch_slices(self) -> list[Callable[[Any], Any]]:
        """For each bucket a function that slices a training batch to its shape and drops 'bucket'."""
        return [functools.partial(_slice, shape) for shape in self.shapes]

    def training_batches(
        self, context: tf.distribute.InputContext, *, batch_size: int, seed: int, first_step: int, last_step: int
    ) -> tf.data.Dataset:
        order = BucketOrder(self._buckets, batch_size, seed, self._block)
        numbers = order.runs(first_step).rebatch(batch_size, drop_remainder=True).take(last_step - first_step)
        return self._batches(numbers, context, batch_size)

    @property
    def evaluation_order(self) -> np.ndarray:
        """The numbers of the pairs in the order in which they are evaluated: int64 [examples].

        From the shortest source to the longest: a search takes as many steps as the longest translation of its batch.
        """
        sources, targets = self._lengths.T
        return np.lexsort((targets, sources)).astype(np.int64)

    def evaluation_batches(self, context: tf.distribute.InputContext, *, batch_size: int) -> tf.data.Dataset:
        order = tf.constant(self.evaluation_order)

        def numbers_of(step: tf.Tensor) -> tf.Tensor:
            places = step * batch_size + tf.range(batch_size, dtype=tf.int64)
            numbers = tf.gather(order, tf.minimum(places, len(self) - 1))
            return tf.where(places < len(self), numbers, tfrecord.NO_RECORD)

        steps = tf.data.Dataset.range(self.evaluation_steps(batch_size))
        batches = self._batches(steps.map(numbers_of), context, batch_size)
        return batches.map(lambda *batch: _slice(self.shapes[-1], batch))

    def _batches(
        self, numbers: tf.data.Dataset, context: tf.distribute.InputContext, batch_size: int
    ) -> tf.data.Dataset:
        """This worker's per-replica batches, from the record numbers of global ones, int64 [batch_size]."""
        skip_bad.check_is_local(self.source)
        replicas = context.num_replicas_in_sync // context.num_input_pipelines
        size = batch_size // context.num_replicas_in_sync
        begin = context.input_pipeline_id * replicas * size
        buckets = tf.constant(self._buckets)

        def parts(numbers: tf.Tensor) -> tf.data.Dataset:
            of_none = numbers == tfrecord.NO_RECORD
            bucket = tf.reduce_max(tf.where(of_none, 0, tf.gather(buckets, tf.maximum(numbers, 0))))
            own = tf.reshape(numbers[begin : begin + replicas * size], [replicas, size])
            return tf.data.Dataset.from_tensor_slices((own, tf.fill([replicas, size], bucket)))

        return (
            numbers.flat_map(parts)
            .map(self._batch, num_parallel_calls=self._threads, deterministic=True)
            .prefetch(2)
            .with_options(self._options)
        )

    def _batch(self, numbers: tf.Tensor, bucket: tf.Tensor) -> Any:
        """(features, labels, weights) of some pairs."""
        records = tf.ensure_shape(tf.numpy_function(self._reader.read, [numbers], tf.string), numbers.shape)
        features, labels, weights = skip_bad.map_records(
            lambda records, _: self._parsed(records),
            (records, numbers),
            lambda bad: tf.numpy_function(self.bad.add, [bad], []),
        )
        return {**features, "bucket": bucket}, labels, weights

    def _parsed(self, records: tf.Tensor) -> Any:
        """(features, labels, weights) of some records, without 'bucket'."""
        there = tf.strings.length(records) > 0
        spec = {name: tf.io.FixedLenFeature([], tf.string, "") for name in SIDES}
        # A sentence may be empty, but its features may not be missing.
        spec |= {f"{name}_length": tf.io.FixedLenFeature([], tf.int64, -1) for name in SIDES}
        parsed = tf.io.parse_example(records, spec)
        (source, source_size), (target, target_size) = (
            self._ids(parsed[name], parsed[f"{name}_length"], there, longest)
            for name, longest in zip(SIDES, self.shapes[-1])
        )
        features = {
            "source_ids": _ended(source, source_size),
            "source_lengths": source_size + 1,
            "target_ids": tf.pad(target[:, :-1], [(0, 0), (1, 0)], constant_values=BEGIN),
        }
        counts = tf.range(self.shapes[-1][1]) <= target_size[:, None]
        return features, _ended(target, target_size), tf.cast(counts & there[:, None], tf.float32)

    def _ids(
        self, content: tf.Tensor, stated: tf.Tensor, there: tf.Tensor, longest: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """(int32 [n, longest], int32 [n]): the ids and their number, checked against the `stated` numbers."""
        width = self._manifest.id_type.itemsize
        kind = {2: tf.uint16, 4: tf.int32}[width]
        ids = tf.cast(tf.io.decode_raw(content, kind, little_endian=True, fixed_length=width * longest), tf.int32)
        ids, size = tf.ensure_shape(ids, [None, longest]), tf.strings.length(content) // width
        checks = [
            tf.debugging.assert_less(ids, len(self._manifest.vocabulary), "an id is not of the vocabulary"),
            tf.debugging.assert_less(size, longest, "a sentence is longer than the manifest says"),
            tf.debugging.Assert(tf.reduce_all((stated == tf.cast(size, tf.int64)) | ~there), ["of another length"]),
        ]
        with tf.control_dependencies(checks):
            return tf.identity(ids), tf.identity(size)


def _slice(shape: tuple[int, int], batch: Any) -> Any:
    features, labels, weights = batch
    cut = {f"{side}_ids": features[f"{side}_ids"][:, :length] for side, length in zip(SIDES, shape)}
    return {**cut, "source_lengths": features["source_lengths"]}, labels[:, : shape[1]], weights[:, : shape[1]]


def _ended(ids: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """The ids followed by END."""
    return tf.where(tf.range(ids.shape[1]) == size[:, None], END, ids)
