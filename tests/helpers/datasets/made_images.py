"""Small sets of made-up JPEGs in TFRecord files, for the tests."""

import numpy as np
import tensorflow as tf

from tfbigbatch.data.images.manifest import Manifest, Split

CLASSES = 5


def jpeg_of(number):
    """A JPEG of one colour, which tells its number; sizes differ."""
    shape = 40 + number % 7, 50 - number % 5, 3
    return tf.io.encode_jpeg(np.full(shape, number % 250, np.uint8), quality=95).numpy()


def feature(value):
    if isinstance(value, bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


def record(image, label):
    features = {"image/encoded": feature(image), "image/class/label": feature(label)}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def write_split(folder, counts, name="train", replaced=()):
    """A Split of files with `counts` records; example n is of class n % CLASSES, stored from 1 on.

    Args:
      replaced: dictionary from numbers to records in place of theirs.
    """
    replaced, files, offsets, sizes, number = dict(replaced), [], [], [], 0
    for file, count in enumerate(counts):
        files.append(str(folder / f"{name}-{file}"))
        offset = 0
        with tf.io.TFRecordWriter(files[-1]) as writer:
            for _ in range(count):
                content = replaced.get(number) or record(jpeg_of(number), number % CLASSES + 1)
                writer.write(content)
                offsets.append(offset)
                offset += len(content) + 16
                number += 1
        sizes.append(offset)
    return Split(name, tuple(files), np.array(counts), np.array(offsets), np.array(sizes))


def manifest_of(**splits):
    """The Manifest of some splits, by name."""
    return Manifest(tuple(f"class{n}" for n in range(CLASSES)), "image/encoded", "image/class/label", 1, splits)
