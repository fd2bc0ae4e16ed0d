"""Labelled JPEGs in TFRecord files as a Dataset: parse, decode the crop, resize. The device gets uint8."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfbigbatch.data.images import jpeg
from tfbigbatch.data.images.manifest import Manifest
from tfbigbatch.data.records import skip_bad
from tfbigbatch.data.records.dataset import RecordDataset
from tfbigbatch.data.records.manifest import Split


class ImageRecords(RecordDataset):
    """One split of a prepared image dataset.

    Batches are (images, labels, weights), n = batch_size / replicas each: uint8 [n, image_size, image_size, 3],
    int32 [n] and float32 [n], 1 for an image and 0 for a bad record or padding.

    Args:
      split: Split of the manifest.
      manifest: Manifest of the prepared folder.
      image_size: height and width of the images, in pixels.
      min_area: see `jpeg.random_crops`.
      central_fraction: the fraction of the shorter side that evaluation keeps, see `jpeg.centre_crops`.
      resizer: "tensorflow", or "opencv": up to a fifth less processor time a picture, and a pixel that may differ by
        one or two of 255. OpenCV is called through Python, so not on another host than Python's.
      shuffle_window, **options: see `RecordDataset`.
    """

    # Few enough that calls share the cores well, enough to pay for a call.
    most_at_once = 16

    def __init__(
        self,
        split: Split,
        manifest: Manifest,
        *,
        image_size: int,
        min_area: float = 0.08,
        central_fraction: float = 0.875,
        resizer: str = "tensorflow",
        shuffle_window: int = 8192,
        **options: Any,
    ) -> None:
        jpeg.check_resizer(resizer)
        super().__init__(split, shuffle_window=shuffle_window, **options)
        self._manifest = manifest
        self._size: dict[str, Any] = {"image_size": image_size, "resizer": resizer}
        self._min_area = min_area
        self._central_fraction = central_fraction

    @property
    def contents(self) -> str:
        side = self._manifest.max_side
        stored = f", stored with a shorter side of at most {side:,} pixels" if side is not None else ""
        classes, files = len(self._manifest.classes), len(self._split.files)
        return f"{len(self):,} images of {classes:,} classes in {files:,} files{stored}"

    def examples(
        self, records: tf.Tensor, numbers: tf.Tensor, epochs: tf.Tensor, seed: int | None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """(images, labels, weights) of some records; a black image of class 0 and weight 0 for an empty one."""
        if self._size["resizer"] == "opencv":
            skip_bad.check_is_local(f"{self.source} with data.resizer='opencv'")
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
        if seed is None:
            images = jpeg.centre_crops(encoded, central_fraction=self._central_fraction, **self._size)
        else:
            # The crop of a record in an epoch is the same on any number of hosts.
            run = tf.fill(tf.shape(numbers), tf.constant(seed, tf.int64))
            seeds = tf.stack([run, epochs * len(self) + numbers], axis=-1)
            images = jpeg.random_crops(encoded, seeds, min_area=self._min_area, **self._size)
        return images, tf.cast(labels, tf.int32), tf.cast(there, tf.float32)
