"""A folder of images with a folder for each class, read as they are: for data sets that need no preparation."""

from __future__ import annotations

import concurrent.futures
import functools
import os
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from tfbigbatch.data.images.prepare import layouts
from tfbigbatch.data.sources.by_index import ByIndex, Nest
from tfbigbatch.errors import InputError
from tfbigbatch.utils import files, processes

# Bad images that an error or a log names.
_NAMED = 50


class ImageFolder(ByIndex):
    """Images float32 [image_size, image_size, 3] in [0, 255], and the number of their class.

    An image is resized to the shorter side and its centre cropped. There is no augmentation: put Keras' layers for it
    into the network, or prepare the folder with prepare-imagenet.

    Every image is decoded once before the first step. Bad images are logged with their reason.

    Args:
      images: the images of a split.
      names: of the classes, in the order of their numbers.
      image_size: pixels of a side.
      max_bad_fraction: the largest fraction of the images that may be left out because they are bad, in [0, 1].

    Raises:
      ValueError: more images are bad, which it names.
    """

    def __init__(
        self, images: layouts.Images, names: Sequence[str], *, image_size: int, max_bad_fraction: float = 0.01
    ) -> None:
        good = _good_images(images, max_bad_fraction)
        folder = os.path.join(images.source, images.folder).rstrip("/")
        super().__init__(len(good), folder, classes=len(names))
        self.names = list(names)
        self.image_size = image_size
        self._paths = np.asarray([images.path(index) for index in good], object)
        self._labels = images.labels[good].astype(np.int32)

    def fetch(self, indices: tf.Tensor) -> tuple[Nest, ...]:
        side, paths = self.image_size, tf.gather(self._paths, indices)
        images = tf.map_fn(lambda path: decoded(tf.io.read_file(path), side), paths, fn_output_signature=tf.float32)
        return tf.ensure_shape(images, [indices.shape[0], side, side, 3]), tf.gather(self._labels, indices)


def _good_images(images: layouts.Images, max_bad_fraction: float) -> np.ndarray:
    """The indices of the images that can be decoded; logs the others."""
    if not 0 <= max_bad_fraction <= 1:
        raise InputError(f"max_bad_fraction={max_bad_fraction}; expected a fraction from 0 to 1.")
    with concurrent.futures.ThreadPoolExecutor(processes.cores()) as threads:
        reasons = list(threads.map(_reason, map(images.path, range(len(images.names)))))
    bad = [f"{name}: {reason}" for name, reason in zip(images.names, reasons) if reason]
    if len(bad) > max_bad_fraction * len(reasons):
        raise InputError(
            f"{len(bad):,} of {len(reasons):,} images of {images.source} cannot be used, more than max_bad_fraction="
            f"{max_bad_fraction:g} allows:\n  " + "\n  ".join(bad[:_NAMED]) + "\nRemove or replace them, or allow more "
            "(data.max_bad_fraction)."
        )
    for line in bad[:_NAMED]:
        logging.warning("%s: left out %s", images.source, line)
    return np.flatnonzero([reason is None for reason in reasons])


@functools.lru_cache(1 << 20)
def _reason(path: str) -> str | None:
    """The reason that an image cannot be used, or None, found once in a process.

    TensorFlow's errors in a pipeline do not name it.
    """
    try:
        content = files.read_bytes(path)
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    if content.startswith(b"BM"):
        # TensorFlow ignores the palette of one, and its pixels would be wrong.
        return "a BMP; expected JPEG, PNG, GIF or WebP"
    try:
        tf.ensure_shape(tf.io.decode_image(content, channels=3, expand_animations=False), [None, None, 3])
    except (tf.errors.OpError, ValueError):
        return "cannot be decoded"
    return None


def decoded(encoded: tf.Tensor, image_size: int) -> tf.Tensor:
    """float32 [image_size, image_size, 3] in [0, 255]: the bytes of an image, decoded, resized, its centre cropped."""
    image = tf.io.decode_image(encoded, channels=3, expand_animations=False)
    shape = tf.shape(image)[:2]
    size = tf.cast(tf.math.ceil(shape * image_size / tf.reduce_min(shape)), tf.int32)
    image = tf.image.resize(image, tf.maximum(size, image_size), antialias=True)
    return tf.image.resize_with_crop_or_pad(image, image_size, image_size)


def splits(folder: str, image_size: int, max_bad_fraction: float = 0.01) -> dict[str, ImageFolder]:
    """The splits of a folder: of its folders 'train', 'validation' and 'test' where it has them, else all as 'train'.

    Raises:
      ValueError: see `ImageFolder` and `layouts.find`.
    """
    found = layouts.find(folder)
    for reason, names in found.unused.items():
        logging.warning("%s: %d files are not used: %s; such as %s", folder, len(names), reason, names[0])
    return {
        name: ImageFolder(images, found.classes, image_size=image_size, max_bad_fraction=max_bad_fraction)
        for name, images in found.splits.items()
    }
