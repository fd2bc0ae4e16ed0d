"""Labelled JPEGs in TFRecord files as a Dataset: read, shuffle, parse, decode the crop, resize, batch.

The device gets uint8 and normalises it. A damaged record or JPEG becomes an example with weight 0 in the same
position: no other example, and no later batch, changes.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable

import tensorflow as tf

from tfbigbatch.data.dataset import Dataset
from tfbigbatch.data.images import jpeg
from tfbigbatch.data.images.manifest import Manifest
from tfbigbatch.data.records import reader, skip_bad
from tfbigbatch.data.records.manifest import Split
from tfbigbatch.data.records.order import HostSlice, RecordOrder

# Images that are decoded in one call: few enough that calls share the cores well, enough to pay for a call.
_GROUP = 16


class ImageRecords(Dataset):
    """One split of a prepared image dataset.

    Batches are (images, labels, weights), n = batch_size / replicas each: uint8 [n, image_size, image_size, 3],
    int32 [n] and float32 [n], 1 for an image and 0 for a bad record or padding.

    Args:
      split: Split of the manifest.
      manifest: Manifest of the prepared folder.
      image_size: height and width of the images, in pixels.
      min_area, reduced_decoding: see `jpeg.random_crops`.
      central_share: the fraction of the shorter side that evaluation keeps, see `jpeg.centre_crops`.
      resizer: "tensorflow", or "opencv": up to a fifth less processor time a picture, and a pixel that may differ by
        one or two of 255. OpenCV is called through Python, so not on another host than Python's.
      shuffle_window: records that are shuffled together, and held in memory.
      cache_records: keep the records in memory, encoded, and read each once.
      max_bad_share: the largest fraction of the split's records that may be bad.
      threads: of the private pool that decodes; None for as many as the machine has cores.

    Attributes:
      bad: skip_bad.BadRecords of the split.
    """

    def __init__(
        self,
        split: Split,
        manifest: Manifest,
        *,
        image_size: int,
        min_area: float = 0.08,
        reduced_decoding: bool = False,
        central_share: float = 0.875,
        resizer: str = "tensorflow",
        shuffle_window: int = 8192,
        cache_records: bool = False,
        max_bad_share: float = 0.0001,
        threads: int | None = None,
    ) -> None:
        jpeg.check_resizer(resizer)
        self._split, self._manifest, self._resizer = split, manifest, resizer
        self._image_size, self._central_share = image_size, central_share
        self._min_area, self._reduced_decoding = min_area, reduced_decoding
        self._shuffle_window = shuffle_window
        self._threads = threads or os.cpu_count()
        self._reader = reader.RecordReader(split.files, split.counts, split.offsets, cache_records)
        self.bad = skip_bad.BadRecords(split, max_share=max_bad_share)
        self.source = f"{os.path.dirname(split.files[0])}, {split.name}"

    def __len__(self) -> int:
        return self._split.examples

    @property
    def contents(self) -> str:
        side = self._manifest.max_side
        stored = f", stored with a shorter side of at most {side:,} pixels" if side is not None else ""
        classes, files = len(self._manifest.classes), len(self._split.files)
        return f"{len(self):,} images of {classes:,} classes in {files:,} files{stored}"

    @property
    def tokens_per_example(self) -> None:
        return None

    def examples_in_epoch(self, batch_size: int) -> int:
        return len(self)

    def training_batches(
        self, context: tf.distribute.InputContext, *, batch_size: int, seed: int, first_step: int, last_step: int
    ) -> tf.data.Dataset:
        host_slice = HostSlice(batch_size, context.num_input_pipelines, context.input_pipeline_id)
        order = RecordOrder(self._reader.chunks, host_slice, seed, self._shuffle_window)

        def with_seeds(records: tf.Tensor, numbers: tf.Tensor, epoch: tf.Tensor) -> tuple[tf.Tensor, ...]:
            # The crop of a record in an epoch is the same on any number of hosts.
            run = tf.fill(tf.shape(numbers), tf.constant(seed, tf.int64))
            return records, numbers, tf.stack([run, epoch * len(self) + numbers], axis=-1)

        crops = functools.partial(
            jpeg.random_crops,
            image_size=self._image_size,
            min_area=self._min_area,
            reduced_decoding=self._reduced_decoding,
            resizer=self._resizer,
        )
        records = reader.shuffled_records(self._reader, order, first_step).map(with_seeds)
        return self._batches(records, crops, context, batch_size, last_step - first_step)

    def evaluation_batches(self, context: tf.distribute.InputContext, *, batch_size: int) -> tf.data.Dataset:
        host_slice = HostSlice(batch_size, context.num_input_pipelines, context.input_pipeline_id)
        steps = self.evaluation_steps(batch_size)
        records = reader.records_in_order(self._reader, host_slice, steps).map(
            lambda records, numbers: (records, numbers, tf.zeros([tf.size(numbers), 2], tf.int64))
        )

        def crops(encoded: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
            return jpeg.centre_crops(
                encoded,
                image_size=self._image_size,
                central_fraction=self._central_share,
                resizer=self._resizer,
            )

        return self._batches(records, crops, context, batch_size, steps)

    def evaluation_steps(self, batch_size: int) -> int:
        return -(-len(self) // batch_size)

    def _batches(
        self,
        records: tf.data.Dataset,
        crops: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
        context: tf.distribute.InputContext,
        batch_size: int,
        steps: int,
    ) -> tf.data.Dataset:
        """This worker's batches of `steps` steps, from runs of (records, numbers, seeds), decoded in parallel."""
        if self._resizer == "opencv":
            skip_bad.check_is_local(f"{self.source} with data.resizer='opencv'")
        size = batch_size // context.num_replicas_in_sync
        count = steps * (context.num_replicas_in_sync // context.num_input_pipelines)
        group = math.gcd(size, _GROUP)
        options = tf.data.Options()
        options.threading.private_threadpool_size = self._threads
        # Images run in parallel, not the parts of one.
        options.threading.max_intra_op_parallelism = 1
        options.deterministic = True
        report = self.bad.reporter()

        def decoded(records: tf.Tensor, numbers: tf.Tensor, seeds: tf.Tensor) -> tuple[tf.Tensor, ...]:
            # Lost where the reader has a cache.
            records, numbers, seeds = (
                tf.ensure_shape(each, [group, *each.shape[1:]]) for each in (records, numbers, seeds)
            )
            examples = functools.partial(self._examples, crops)
            found: tuple[tf.Tensor, ...] = skip_bad.map_records(examples, records, numbers, (seeds,), report)
            return found

        groups = (
            records.rebatch(group, drop_remainder=True)
            .take(count * (size // group))
            .map(decoded, num_parallel_calls=self._threads, deterministic=True)
        )
        batches = groups.batch(size // group, drop_remainder=True).map(
            lambda *parts: tuple(tf.reshape(part, [size, *part.shape[2:]]) for part in parts)
        )
        return batches.prefetch(2).with_options(options)

    def _examples(
        self, crops: Callable[[tf.Tensor, tf.Tensor], tf.Tensor], records: tf.Tensor, seeds: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """(images, labels, weights) of some records; a black image of class 0 and weight 0 for an empty one."""
        there, manifest = tf.strings.length(records) > 0, self._manifest
        features = tf.io.parse_example(
            records,
            {
                manifest.image_key: tf.io.FixedLenFeature([], tf.string, ""),
                manifest.label_key: tf.io.FixedLenFeature([], tf.int64, manifest.label_offset),
            },
        )
        encoded, labels = features[manifest.image_key], features[manifest.label_key] - manifest.label_offset
        fine = (labels >= 0) & (labels < len(manifest.classes)) & ((tf.strings.length(encoded) > 0) | ~there)
        with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(fine), [labels])]):
            encoded = tf.where(there, encoded, tf.io.encode_jpeg(tf.zeros([1, 1, 3], tf.uint8)))
        return crops(encoded, seeds), tf.cast(labels, tf.int32), tf.cast(there, tf.float32)
