"""Small sets of made-up JPEGs in TFRecord files, for the tests."""

import numpy as np
import tensorflow as tf

from tests.helpers.datasets import made_records
from tfbigbatch.data.images.manifest import Manifest
from tfbigbatch.data.records import tfrecord

CLASSES = 5


def jpeg_of(number):
    """A JPEG of one colour, which tells its number; sizes differ."""
    shape = 40 + number % 7, 50 - number % 5, 3
    return tf.io.encode_jpeg(np.full(shape, number % 250, np.uint8), quality=95).numpy()


def record(image, label):
    return tfrecord.example({"image/encoded": image, "image/class/label": label})


def write_split(folder, counts, name="train", replaced=()):
    """A Split of files with `counts` records; example n is of class n % CLASSES, stored from 1 on.

    Args:
      replaced: dictionary from numbers to records in place of theirs.
    """
    replaced = dict(replaced)
    records = (replaced.get(n) or record(jpeg_of(n), n % CLASSES + 1) for n in range(sum(counts)))
    return made_records.write(folder, records, counts, name)


def manifest_of(**splits):
    """The Manifest of some splits, by name."""
    return Manifest(tuple(f"class{n}" for n in range(CLASSES)), "image/encoded", "image/class/label", 1, splits)
