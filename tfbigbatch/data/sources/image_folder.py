"""A folder of images with a folder for each class, read as they are: for data sets that need no preparation."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfbigbatch.data.sources.by_index import ByIndex, Nest
from tfbigbatch.errors import InputError

# What the files of the formats that TensorFlow decodes begin with.
_BEGINNINGS = (b"\xff\xd8", b"\x89PNG", b"GIF8", b"BM")
_ENDINGS = (".jpg", ".jpeg", ".png", ".gif", ".bmp")


class ImageFolder(ByIndex):
    """Images float32 [image_size, image_size, 3] in [0, 255], and the number of their class.

    An image is resized to the shorter side and its centre cropped. There is no augmentation: put Keras' layers for it
    into the network, or prepare the folder with prepare-imagenet.

    Args:
      folder: has a folder of images for each class.
      image_size: pixels of a side.
      names: of the classes, in the order of their numbers; None for the folders, sorted.

    Raises:
      ValueError: there is no such folder, no image in it, or a class that `names` lacks.
    """

    def __init__(self, folder: str, *, image_size: int, names: Sequence[str] | None = None) -> None:
        found = class_folders(folder)
        self.names = list(names) if names is not None else found
        unknown = sorted(set(found) - set(self.names))
        if unknown:
            raise InputError(f"{folder} has the classes {', '.join(unknown)}, which the training images do not have.")
        paths, labels = [], []
        for name in found:
            inside = sorted(os.listdir(os.path.join(folder, name)))
            images = [os.path.join(folder, name, each) for each in inside if each.lower().endswith(_ENDINGS)]
            paths += images
            labels += [self.names.index(name)] * len(images)
        if not paths:
            raise InputError(f"{folder} has no images ({', '.join(_ENDINGS)}) in the folders of its classes.")
        for path in paths:
            _check_beginning(path)
        super().__init__(len(paths), folder, classes=len(self.names))
        self._paths = np.asarray(paths, object)
        self._labels = np.asarray(labels, np.int32)
        self.image_size = image_size

    def fetch(self, indices: tf.Tensor) -> tuple[Nest, ...]:
        images = tf.map_fn(self._image, tf.gather(self._paths, indices), fn_output_signature=tf.float32)
        side = self.image_size
        return tf.ensure_shape(images, [indices.shape[0], side, side, 3]), tf.gather(self._labels, indices)

    def _image(self, path: tf.Tensor) -> tf.Tensor:
        return decoded(tf.io.read_file(path), self.image_size)


def _check_beginning(path: str) -> None:
    """A file that is no image would end a run in the middle, and TensorFlow does not name it."""
    with open(path, "rb") as file:
        beginning = file.read(4)
    if not beginning.startswith(_BEGINNINGS):
        raise InputError(f"{path} is no JPEG, PNG, GIF or BMP, whatever its name. Remove or replace it.")


def decoded(encoded: tf.Tensor, image_size: int) -> tf.Tensor:
    """float32 [image_size, image_size, 3] in [0, 255]: the bytes of an image, decoded, resized, its centre cropped."""
    image = tf.io.decode_image(encoded, channels=3, expand_animations=False)
    shape = tf.shape(image)[:2]
    size = tf.cast(tf.math.ceil(shape * image_size / tf.reduce_min(shape)), tf.int32)
    image = tf.image.resize(image, tf.maximum(size, image_size), antialias=True)
    return tf.image.resize_with_crop_or_pad(image, image_size, image_size)


def class_folders(folder: str) -> list[str]:
    """The names of the folders in a folder, sorted.

    Raises:
      ValueError: there is no such folder, or it has none.
    """
    if not os.path.isdir(folder):
        raise InputError(f"--data_dir={folder} is no folder; expected one with a folder of images for each class.")
    found = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))
    if not found:
        raise InputError(f"{folder} has no folders; expected one with images for each class.")
    return found


def splits(folder: str, image_size: int) -> dict[str, ImageFolder]:
    """The splits of a folder: of its folders 'train', 'validation' and 'test' where it has them, else all as 'train'.

    Raises:
      ValueError: see `ImageFolder`.
    """
    inside = class_folders(folder)
    if "train" not in inside:
        return {"train": ImageFolder(folder, image_size=image_size)}
    train = ImageFolder(os.path.join(folder, "train"), image_size=image_size)
    others = {"validation": "validation", "val": "validation", "valid": "validation", "test": "test"}
    held_out = {
        others[name]: ImageFolder(os.path.join(folder, name), image_size=image_size, names=train.names)
        for name in inside
        if name in others
    }
    return {"train": train, **held_out}
