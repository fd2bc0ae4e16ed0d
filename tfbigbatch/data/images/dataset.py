"""Labelled JPEGs in TFRecord files: per-replica batches from (seed, step), and padded evaluation.

Read, shuffle, parse, decode the crop alone, resize, batch: uint8 to the device, where they are
normalised. A record or JPEG that is damaged is an example of no weight, in its place: the batches that follow
are the same, and nothing else is lost.
"""

import math
import os

import tensorflow as tf

from tfbigbatch.data.images import jpeg
from tfbigbatch.data.records import reader, skip_bad
from tfbigbatch.data.records.order import HostSlice, RecordOrder
from tfbigbatch.data.records.reader import RecordReader
from tfbigbatch.data.records.skip_bad import BadRecords

# Images that are decoded in one call: few enough that calls share the cores well, enough to pay for a call.
_GROUP = 16


class ImageRecords:
    """One split of a prepared set of images.

    Args:
      split: `image_manifest.Split`.
      manifest: the `image_manifest.Manifest` that it is of.
      image_size: pixels of a side of the images.
      min_area, reduced_decoding: see `jpeg.random_crop`.
      central_share: see `jpeg.centre_crop`.
      shuffle_window: records that are shuffled together, and held in memory.
      cache_records: keep the records in memory, and read each once; they are not decoded.
      max_bad_share: the share of the split's records that may be bad.
      threads: of the private pool that decodes; None for as many as the machine has cores.
    """

    def __init__(
        self,
        split,
        manifest,
        *,
        image_size,
        min_area=0.08,
        reduced_decoding=False,
        central_share=0.875,
        shuffle_window=8192,
        cache_records=False,
        max_bad_share=0.0001,
        threads=None,
    ):
        self._split, self._manifest = split, manifest
        self._image_size, self._central_share = image_size, central_share
        self._crop = {"min_area": min_area, "reduced_decoding": reduced_decoding}
        self._shuffle_window = shuffle_window
        self._threads = threads or os.cpu_count()
        self._reader = RecordReader(split.files, split.counts, split.offsets, cache_records)
        self.bad = BadRecords(split, max_share=max_bad_share)
        self.source = f"{os.path.dirname(split.files[0])}, {split.name}"

    def __len__(self):
        return self._split.examples

    @property
    def contents(self):
        """What there is, in words, for the run's banner."""
        return f"{len(self):,} images of {len(self._manifest.classes):,} classes in {len(self._split.files):,} files"

    @property
    def tokens_per_example(self):
        """None: an example is not a text."""
        return None

    def examples_in_epoch(self, batch_size):
        """The examples in an epoch, whatever the batch: an epoch need not be whole batches."""
        del batch_size
        return len(self)

    def training_batches(self, context, *, batch_size, seed, first_step, last_step):
        """Batches for this worker's replicas, in the order of `RecordOrder`.

        Args:
          context: tf.distribute.InputContext of this worker.
          batch_size: examples in one update over all replicas; a multiple of their number.
          seed: of the order and of the crops.
          first_step, last_step: the updates [first_step, last_step) that the data set covers.

        Returns:
          tf.data.Dataset of (images, labels, weights): uint8 [n, image_size, image_size, 3], int32 [n] and float32
          [n], 1 for an image and 0 for a bad record; n is batch_size / replicas. The replicas of this worker
          take turns.
        """
        share = HostSlice(batch_size, context.num_input_pipelines, context.input_pipeline_id)
        order = RecordOrder(self._reader.chunks, share, seed, self._shuffle_window)

        def with_seeds(records, numbers, epoch):
            # The crop of a record in an epoch is the same on any number of hosts.
            run = tf.fill(tf.shape(numbers), tf.constant(seed, tf.int64))
            return records, numbers, tf.stack([run, epoch * len(self) + numbers], axis=-1)

        return self._batches(
            reader.shuffled_records(self._reader, order, first_step).map(with_seeds),
            lambda record, seed: jpeg.random_crop(record, seed, image_size=self._image_size, **self._crop),
            size=batch_size // context.num_replicas_in_sync,
            count=(last_step - first_step) * (context.num_replicas_in_sync // context.num_input_pipelines),
        )

    def evaluation_batches(self, context, *, batch_size):
        """Every image once, in order, padded to whole batches.

        Returns:
          tf.data.Dataset of (images, labels, mask) as `training_batches`: the mask is 0 for padding too.
          It covers `evaluation_steps(batch_size)` updates.
        """
        share = HostSlice(batch_size, context.num_input_pipelines, context.input_pipeline_id)
        steps = self.evaluation_steps(batch_size)
        return self._batches(
            reader.records_in_order(self._reader, share, steps).map(
                lambda records, numbers: (records, numbers, tf.zeros([tf.size(numbers), 2], tf.int64))
            ),
            lambda record, seed: jpeg.centre_crop(
                record, image_size=self._image_size, central_share=self._central_share
            ),
            size=batch_size // context.num_replicas_in_sync,
            count=steps * (context.num_replicas_in_sync // context.num_input_pipelines),
        )

    def evaluation_steps(self, batch_size):
        """The number of batches that hold every image once."""
        return -(-len(self) // batch_size)

    def _batches(self, records, decode, *, size, count):
        """`count` batches of `size` from runs of (records, numbers, seeds), decoded in parallel, in order."""
        group = math.gcd(size, _GROUP)
        options = tf.data.Options()
        options.threading.private_threadpool_size = self._threads
        # The images are what runs side by side, not the parts of one.
        options.threading.max_intra_op_parallelism = 1
        options.deterministic = True
        groups = (
            records.rebatch(group, drop_remainder=True)
            .take(count * (size // group))
            .map(
                lambda records, numbers, seeds: self._decoded(records, numbers, seeds, decode, group),
                num_parallel_calls=self._threads,
                deterministic=True,
            )
        )
        batches = groups.batch(size // group, drop_remainder=True).map(
            lambda images, labels, weights: (
                tf.reshape(images, [size, *images.shape[2:]]),
                tf.reshape(labels, [size]),
                tf.reshape(weights, [size]),
            )
        )
        return batches.prefetch(2).with_options(options)

    def _decoded(self, records, numbers, seeds, decode, group):
        """(images, labels, weights) of a group of records."""

        def example(record, seed):
            features = tf.io.parse_single_example(
                record,
                {
                    self._manifest.image_key: tf.io.FixedLenFeature([], tf.string),
                    self._manifest.label_key: tf.io.FixedLenFeature([], tf.int64),
                },
            )
            label = features[self._manifest.label_key] - self._manifest.label_offset
            in_range = tf.debugging.Assert((label >= 0) & (label < len(self._manifest.classes)), [label])
            with tf.control_dependencies([in_range]):
                label = tf.cast(label, tf.int32)
            return decode(features[self._manifest.image_key], seed), label

        def report(fine):
            bad = tf.boolean_mask(numbers, ~fine & (numbers != reader.PADDING))
            tf.numpy_function(self.bad.add, [bad], [])

        size = self._image_size
        signature = tf.TensorSpec([size, size, 3], tf.uint8), tf.TensorSpec([], tf.int32)
        (images, labels), fine = skip_bad.map_skipping_errors(example, (records, seeds), group, signature, report)
        return images, labels, tf.cast(fine, tf.float32)
