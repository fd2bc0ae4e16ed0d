"""Pairs of sentences in TFRecord files, in a few shapes: per-replica batches from (seed, step), padded evaluation.

Each host works out the global batches, of the lengths that it keeps in memory, and reads its own part of them. A
record that is damaged is a pair of no weight, in its place.
"""

import functools
import os

import numpy as np
import tensorflow as tf

from tfbigbatch.data.records import random_access, skip_bad
from tfbigbatch.data.records.skip_bad import BadRecords
from tfbigbatch.data.translation import length_buckets
from tfbigbatch.data.translation import manifest as translation_manifest
from tfbigbatch.data.translation.bucket_order import BucketOrder
from tfbigbatch.data.translation.vocabulary import BEGIN, END
from tfbigbatch.errors import InputError

# Examples that tell the padding of an order.
_TOLD_BY = 1 << 20


class TranslationRecords:
    """One split of a prepared set of pairs.

    A sentence of p pieces is p + 1 tokens: a source has END after it, and so have the labels; a target has BEGIN
    before it.

    Args:
      split: `record_manifest.Split`.
      manifest: the `translation_manifest.Manifest` that it is of.
      shapes: tuple of (S, T), growing, the tokens of a source and of a target in each bucket; the last one is to hold
        every pair. None to choose them: those of the least padding.
      most_shapes: how many are chosen, at most.
      block: batches whose pairs are sorted by bucket together; see `BucketOrder`.
      max_bad_share: the share of the split's records that may be bad.
      threads: of the private pool that parses; None for as many as the machine has cores.

    Attributes:
      shapes: tuple of (S, T).

    Raises:
      ValueError: an argument is out of its range, or `shapes` do not hold every pair.
    """

    def __init__(self, split, manifest, *, shapes=None, most_shapes=5, block=50, max_bad_share=0.0001, threads=None):
        if block < 1:
            raise InputError(f"block={block}: expected 1 or more batches.")
        self._split, self._manifest = split, manifest
        # END is a token too, and the settings leave it room in uint16.
        self._lengths = manifest.lengths[split.name] + np.uint16(1)
        self.shapes = tuple(map(tuple, shapes)) if shapes else length_buckets.choose(self._lengths, most_shapes)
        self._buckets = length_buckets.buckets_of(self._lengths, self.shapes)
        self._block = block
        self._threads = threads or os.cpu_count()
        self._reader = random_access.RandomAccessReader(split)
        self.bad = BadRecords(split, max_share=max_bad_share)
        self.source = f"{os.path.dirname(split.files[0])}, {split.name}"

    def __len__(self):
        return self._split.examples

    @property
    def contents(self):
        """What there is, in words, for the run's banner."""
        share, alone = (
            length_buckets.padding_share(self._lengths, self.shapes, buckets) for buckets in (self._buckets, -1)
        )
        shapes = ", ".join(f"{source} x {target}" for source, target in self.shapes)
        return (
            f"{len(self):,} pairs of sentences in {len(self._split.files):,} files, "
            f"{len(self._manifest.vocabulary):,} pieces in the vocabulary, shapes {shapes}: {share:.1%} padding where "
            f"a batch has one bucket, {alone:.1%} at the last shape alone"
        )

    @property
    def tokens_per_example(self):
        """Target tokens of a pair, END included and padding not: the mean."""
        return float(self._lengths[:, 1].mean())

    def examples_in_epoch(self, batch_size):
        """The examples in an epoch, whatever the batch: an epoch need not be whole batches."""
        del batch_size
        return len(self)

    @property
    def cuts(self):
        """Functions that cut a training batch to a bucket's shape, and leave 'bucket' out; one for each bucket."""
        return [functools.partial(_cut, shape) for shape in self.shapes]

    def padding_share(self, batch_size, seed=0):
        """The share of a training run's places, of sources and targets, that hold no token.

        Args:
          batch_size: of the run.
          seed: of the run.

        Returns:
          float, of the first batches: an epoch's, or as many as have a million pairs.
        """
        examples = min(len(self), _TOLD_BY) // batch_size * batch_size or batch_size
        order, found, epoch, block = BucketOrder(self._buckets, batch_size, seed, self._block), [], 0, 0
        while sum(map(len, found)) < examples:
            found.append(order.examples(*tf.constant([epoch, block], tf.int64)))
            epoch, block = (epoch, block + 1) if block + 1 < order.blocks(epoch) else (epoch + 1, 0)
        numbers = np.concatenate(found)[:examples].reshape(-1, batch_size)
        buckets = np.repeat(self._buckets[numbers].max(axis=1), batch_size)
        return length_buckets.padding_share(self._lengths[numbers.reshape(-1)], self.shapes, buckets)

    def training_batches(self, context, *, batch_size, seed, first_step, last_step):
        """Batches for this worker's replicas, in the order of `BucketOrder`.

        Args:
          context: tf.distribute.InputContext of this worker.
          batch_size: pairs in one update over all replicas; a multiple of their number.
          seed: of the order.
          first_step, last_step: the updates [first_step, last_step) that the data set covers.

        Returns:
          tf.data.Dataset of (features, labels, weights) for n = batch_size / replicas pairs, padded to the last
          shape (S, T); the replicas of this worker take turns. Features, int32: 'source_ids' [n, S], with END after
          the sentence and then 0; 'source_lengths' [n], END included; 'target_ids' [n, T], with BEGIN before the
          sentence; and 'bucket' [n], the same number in the whole global batch: all of it fits `shapes[bucket]`, so
          what lies beyond that shape is padding and can be cut off. Labels, int32 [n, T]: the token that follows,
          END in the end, and then 0. Weights, float32 [n, T]: 1 for each label up to END. A damaged record is an
          empty source and has no weight.
        """
        order = BucketOrder(self._buckets, batch_size, seed, self._block)
        numbers = order.runs(first_step).rebatch(batch_size, drop_remainder=True).take(last_step - first_step)
        return self._batches(numbers, context, batch_size)

    def evaluation_batches(self, context, *, batch_size):
        """Every pair once, in order, padded to whole batches.

        Returns:
          tf.data.Dataset of (features, labels, weights) as `training_batches`, but without 'bucket': padding is
          empty sources without weight. It covers `evaluation_steps(batch_size)` updates.
        """
        places = tf.data.Dataset.range(self.evaluation_steps(batch_size)).map(
            lambda step: step * batch_size + tf.range(batch_size, dtype=tf.int64)
        )
        batches = self._batches(
            places.map(lambda place: tf.where(place < len(self), place, random_access.NO_RECORD)), context, batch_size
        )

        def without_bucket(features, labels, weights):
            return {name: value for name, value in features.items() if name != "bucket"}, labels, weights

        return batches.map(without_bucket)

    def evaluation_steps(self, batch_size):
        """The number of batches that hold every pair once."""
        return -(-len(self) // batch_size)

    def _batches(self, numbers, context, batch_size):
        """This worker's replicas' parts of global batches, int64 [batch_size] each."""
        options = tf.data.Options()
        options.threading.private_threadpool_size = self._threads
        # The batches are what runs side by side, not the parts of one.
        options.threading.max_intra_op_parallelism = 1
        options.deterministic = True
        replicas = context.num_replicas_in_sync // context.num_input_pipelines
        size = batch_size // context.num_replicas_in_sync
        begin = context.input_pipeline_id * replicas * size
        buckets = tf.constant(self._buckets)

        def parts(numbers):
            of_none = numbers == random_access.NO_RECORD
            bucket = tf.reduce_max(tf.where(of_none, 0, tf.gather(buckets, tf.maximum(numbers, 0))))
            own = tf.reshape(numbers[begin : begin + replicas * size], [replicas, size])
            return tf.data.Dataset.from_tensor_slices((own, tf.fill([replicas, size], bucket)))

        return (
            numbers.flat_map(parts)
            .map(self._batch, num_parallel_calls=self._threads, deterministic=True)
            .prefetch(2)
            .with_options(options)
        )

    def _batch(self, numbers, bucket):
        """(features, labels, weights) of some pairs."""
        records = tf.ensure_shape(tf.numpy_function(self._reader.read, [numbers], tf.string), numbers.shape)
        there = tf.strings.length(records) > 0
        bad = tf.boolean_mask(numbers, ~there & (numbers != random_access.NO_RECORD))
        tf.cond(tf.size(bad) > 0, lambda: self._report(bad), lambda: False)
        features, labels, weights = skip_bad.map_batch_skipping_errors(
            self._parsed, (records,), lambda fine: self._report(tf.boolean_mask(numbers, ~fine))
        )
        return {**features, "bucket": bucket}, labels, weights

    def _parsed(self, records):
        """(features, labels, weights) of some records, without 'bucket'."""
        there, names = tf.strings.length(records) > 0, translation_manifest.SIDES
        spec = {name: tf.io.FixedLenFeature([], tf.string, "") for name in names}
        # A sentence may be empty; a record without the features of one is not.
        spec |= {f"{name}_length": tf.io.FixedLenFeature([], tf.int64, -1) for name in names}
        parsed = tf.io.parse_example(records, spec)
        (source, source_size), (target, target_size) = (
            self._ids(parsed[name], parsed[f"{name}_length"], there, longest)
            for name, longest in zip(names, self.shapes[-1])
        )
        source, labels = (_ended(ids, size) for ids, size in ((source, source_size), (target, target_size)))
        begins = tf.fill([tf.shape(target)[0], 1], BEGIN)
        features = {
            "source_ids": source,
            "source_lengths": source_size + 1,
            "target_ids": tf.concat([begins, target[:, :-1]], axis=1),
        }
        counts = tf.range(self.shapes[-1][1]) <= target_size[:, None]
        return features, labels, tf.cast(counts & there[:, None], tf.float32)

    def _ids(self, content, stated, there, longest):
        """(int32 [n, longest], int32 [n]): the ids in bytes, and how many they are, as whole records say."""
        width = self._manifest.bytes_of_id
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

    def _report(self, numbers):
        tf.numpy_function(self.bad.add, [numbers], [])
        return True


def _cut(shape, batch):
    features, labels, weights = batch
    sides = ("source_ids", "target_ids")
    cut = {name: features[name][:, :length] for name, length in zip(sides, shape)}
    return {**cut, "source_lengths": features["source_lengths"]}, labels[:, : shape[1]], weights[:, : shape[1]]


def _ended(ids, size):
    """The ids with END after them."""
    return tf.where(tf.range(ids.shape[1]) == size[:, None], END, ids)
