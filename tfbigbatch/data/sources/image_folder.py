"""A folder of images with a folder for each class, read as they are: for data sets that need no preparation."""

from __future__ import annotations

import concurrent.futures
import functools
import os
import struct
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from tfbigbatch.data import left_out
from tfbigbatch.data.images.prepare import layouts
from tfbigbatch.data.sources.by_index import ByIndex, Nest
from tfbigbatch.errors import InputError
from tfbigbatch.utils import files, processes

# Bad images that an error or a log names; from so many images on, a line says that they are looked through.
_NAMED, _MANY = 50, 10_000
# A BMP's colours may have other places in a pixel than red, green and blue have usually.
_BY_MASKS, _USUAL_MASKS = 3, struct.pack("<III", 0xFF0000, 0xFF00, 0xFF)


class ImageFolder(ByIndex):
    """Images float32 [image_size, image_size, 3] in [0, 255], and the number of their class.

    An image is resized to the shorter side and its centre cropped. There is no augmentation: put Keras' layers for it
    into the network, or prepare the folder with prepare-imagenet.

    Every image is decoded once before the first step. What is not used is logged with its reason: bad images, files
    that are no images by name, hidden files, folders without an image.

    Args:
      folder: has a folder of images for each class; the images may lie in folders within it.
      image_size: pixels of a side.
      names: of the classes, in the order of their numbers; None for the folders with images, sorted.
      max_bad_share: the largest fraction of the images that may be left out because they are bad, in [0, 1].

    Raises:
      ValueError: there is no such folder, no image in it, or a class that `names` lacks; or more images are bad, which
        it names.
    """

    def __init__(
        self, folder: str, *, image_size: int, names: Sequence[str] | None = None, max_bad_share: float = 0.01
    ) -> None:
        if not 0 <= max_bad_share <= 1:
            raise InputError(f"max_bad_share={max_bad_share}; expected a fraction from 0 to 1.")
        found = _good_images(folder, class_folders(folder), max_bad_share)
        classes = sorted({name.partition("/")[0] for name in found})
        self.names = list(names) if names is not None else classes
        unknown = sorted(set(classes) - set(self.names))
        if unknown:
            raise InputError(f"{folder} has the classes {', '.join(unknown)}, which the training images do not have.")
        super().__init__(len(found), folder, classes=len(self.names))
        self._paths = np.asarray([os.path.join(folder, name) for name in found], object)
        self._labels = np.asarray([self.names.index(name.partition("/")[0]) for name in found], np.int32)
        self.image_size = image_size

    def fetch(self, indices: tf.Tensor) -> tuple[Nest, ...]:
        images = tf.map_fn(self._image, tf.gather(self._paths, indices), fn_output_signature=tf.float32)
        side = self.image_size
        return tf.ensure_shape(images, [indices.shape[0], side, side, 3]), tf.gather(self._labels, indices)

    def _image(self, path: tf.Tensor) -> tf.Tensor:
        return decoded(tf.io.read_file(path), self.image_size)


def _good_images(folder: str, class_names: Sequence[str], max_bad_share: float) -> list[str]:
    """The names of the images in the folders of the classes, without the bad ones; logs what is left out."""
    names = layouts.Files.of_folder(folder).names
    shown = [name for name in names if not left_out.is_hidden(name)]
    images = [name for name in shown if layouts.is_image(name) and "/" in name]
    if not images:
        raise InputError(f"{folder} has no images ({', '.join(layouts.ENDINGS)}) in the folders of its classes.")
    empty = sorted(set(class_names) - {name.partition("/")[0] for name in images})
    if empty:
        logging.warning("%s: folders without an image are no classes: %s", folder, ", ".join(empty))
    bad = _bad_images(folder, images)
    lines = [f"{name}: {reason}" for name, reason in bad.items()]
    more = [f"{len(lines) - _NAMED:,} more"] if len(lines) > _NAMED else []
    if len(bad) > max_bad_share * len(images):
        raise InputError(
            f"{len(bad):,} of {len(images):,} images of {folder} cannot be used, more than max_bad_share="
            f"{max_bad_share:g} allows:\n  " + "\n  ".join([*lines[:_NAMED], *more]) + "\nRemove or replace them, or "
            "allow more (data.max_bad_share)."
        )
    for line in [*lines[:_NAMED], *more]:
        logging.warning("%s: left out %s", folder, line)
    reasons = {
        "bad": len(bad),
        f"no images by name ({', '.join(layouts.ENDINGS)})": sum(not layouts.is_image(name) for name in shown),
        "in the folder of no class": sum(layouts.is_image(name) and "/" not in name for name in shown),
        left_out.HIDDEN: len(names) - len(shown),
    }
    account = left_out.Account(folder, "files", len(names), reasons)
    if any(reasons.values()):
        logging.warning("%s", account)
    return [name for name in images if name not in bad]


def _bad_images(folder: str, names: Sequence[str]) -> dict[str, str]:
    """The reasons of images that cannot be decoded, by name."""
    if len(names) >= _MANY:
        logging.warning(
            "%s: looking through %d images, at each start. prepare-imagenet does it once.", folder, len(names)
        )
    with concurrent.futures.ThreadPoolExecutor(processes.cores()) as threads:
        reasons = threads.map(lambda name: _reason(os.path.join(folder, name)), names)
        return {name: reason for name, reason in zip(names, reasons) if reason}


def _reason(path: str) -> str | None:
    """The reason that an image cannot be used, or None. TensorFlow's errors in a pipeline do not name it."""
    try:
        status = os.stat(path)
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    return _reason_of_version(path, status.st_size, status.st_mtime_ns)


@functools.lru_cache(1 << 20)
def _reason_of_version(path: str, size: int, changed: int) -> str | None:
    """`_reason` of a file that is looked at once in a process, as long as its size and time stay."""
    try:
        content = files.read_bytes(path)
        problem = _bmp_problem(content)
        if problem:
            return problem
        tf.ensure_shape(tf.io.decode_image(content, channels=3, expand_animations=False), [None, None, 3])
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    except (tf.errors.OpError, ValueError) as error:
        said = getattr(error, "message", None) or str(error)
        return f"cannot be decoded: {said.partition(' [Op:')[0].rpartition('}} ')[2].splitlines()[0]}"
    return None


def _bmp_problem(content: bytes) -> str | None:
    """The reason that TensorFlow would read wrong pixels of a BMP, or None: it ignores its palette."""
    if not content.startswith(b"BM") or len(content) < 54:
        return None
    [header], [bits, compression] = struct.unpack_from("<I", content, 14), struct.unpack_from("<HI", content, 28)
    [colours], masks = struct.unpack_from("<I", content, 46), content[54:66]
    palette = content[14 + header : 14 + header + 4 * (colours or 256)]
    grey = b"".join(bytes([level, level, level, 0]) for level in range(256))
    plain = compression == 0 or (compression == _BY_MASKS and bits == 32 and masks == _USUAL_MASKS)
    if plain and (bits in (24, 32) or (bits == 8 and grey.startswith(palette))):
        return None
    return "a BMP with a palette, compressed or of 16 bits; expected 24 or 32 bits a pixel, or another format"


def decoded(encoded: tf.Tensor, image_size: int) -> tf.Tensor:
    """float32 [image_size, image_size, 3] in [0, 255]: the bytes of an image, decoded, resized, its centre cropped."""
    image = tf.io.decode_image(encoded, channels=3, expand_animations=False)
    shape = tf.shape(image)[:2]
    size = tf.cast(tf.math.ceil(shape * image_size / tf.reduce_min(shape)), tf.int32)
    image = tf.image.resize(image, tf.maximum(size, image_size), antialias=True)
    return tf.image.resize_with_crop_or_pad(image, image_size, image_size)


def class_folders(folder: str) -> list[str]:
    """The names of the folders in a folder, sorted, without hidden ones.

    Raises:
      ValueError: there is no such folder, or it has none.
    """
    if not os.path.isdir(folder):
        raise InputError(f"--data_dir={folder} is no folder; expected one with a folder of images for each class.")
    found = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not left_out.is_hidden(entry.name))
    if not found:
        raise InputError(f"{folder} has no folders; expected one with images for each class.")
    return found


def splits(folder: str, image_size: int, max_bad_share: float = 0.01) -> dict[str, ImageFolder]:
    """The splits of a folder: of its folders 'train', 'validation' and 'test' where it has them, else all as 'train'.

    Raises:
      ValueError: see `ImageFolder`.
    """
    inside = class_folders(folder)
    read = functools.partial(ImageFolder, image_size=image_size, max_bad_share=max_bad_share)
    if "train" not in inside:
        return {"train": read(folder)}
    found = {"train": read(os.path.join(folder, "train"))}
    others = {"validation": "validation", "val": "validation", "valid": "validation", "test": "test"}
    for name, split in others.items():
        if name in inside and split not in found:
            found[split] = read(os.path.join(folder, name), names=found["train"].names)
            inside.remove(name)
    inside.remove("train")
    if inside:
        logging.warning("%s: not read, beside its %s: the folders %s", folder, ", ".join(found), ", ".join(inside))
    return found
