"""MNIST from the four original idx files, or downloaded by Keras."""

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib

import numpy as np

from tfbigbatch.data.in_memory.arrays import Arrays
from tfbigbatch.errors import InputError

SHAPE = (28, 28)
CLASSES = 10
BRIGHTEST = 255
_IMAGES_MAGIC, _LABELS_MAGIC = 2051, 2049
_FILES = {
    "train": ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
    "test": ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
}
_BOTH_WAYS = (
    "Either put the four files {files} into one folder and pass --data_dir=THAT_FOLDER, or run once without "
    "--data_dir on a machine with internet, where Keras downloads them into ~/.keras."
).format(files=", ".join(name for names in _FILES.values() for name in names))


def load(data_dir: str | None = None) -> tuple[Arrays, ...]:
    """60,000 training and 10,000 test images, uint8 in [0, 255].

    Args:
      data_dir: folder with the four idx gz files; None to download them with Keras.

    Raises:
      ValueError: a file is missing, truncated, corrupt or not what its name says; or the download fails.
    """
    if data_dir is None:
        return _downloaded()
    missing = [name for names in _FILES.values() for name in names if not os.path.isfile(os.path.join(data_dir, name))]
    if missing:
        raise InputError(f"--data_dir={data_dir} lacks {', '.join(missing)}. {_BOTH_WAYS}")
    return tuple(_split(data_dir, *_FILES[name]) for name in ("train", "test"))


def _split(data_dir: str, images_name: str, labels_name: str) -> Arrays:
    images = _read_idx(os.path.join(data_dir, images_name), _IMAGES_MAGIC, dimensions=3)
    labels = _read_idx(os.path.join(data_dir, labels_name), _LABELS_MAGIC, dimensions=1)
    if images.shape[1:] != SHAPE:
        raise InputError(f"{images_name}: images of {images.shape[1:]}; MNIST's are of {SHAPE}.")
    return Arrays(images, labels.astype(np.int32), CLASSES, os.path.join(data_dir, labels_name))


def _read_idx(path: str, magic: int, dimensions: int) -> np.ndarray:
    """The uint8 array in a gzipped idx file, checked against its header."""
    try:
        with gzip.open(path, "rb") as file:
            content = file.read()
        found, *shape = struct.unpack_from(f">{1 + dimensions}I", content)
    except (EOFError, zlib.error, struct.error, OSError) as error:
        raise InputError(f"{path} cannot be read, or is truncated or corrupt ({error}). Fetch it again.") from None
    size = len(content) - 4 - 4 * dimensions
    if found != magic or size != math.prod(shape):
        raise InputError(
            f"{path} is not the idx file of its name, or truncated: its header has the magic number {found}, expected "
            f"{magic}, and says {' x '.join(map(str, shape))} bytes; it holds {size}. Fetch it again."
        )
    return np.frombuffer(content, np.uint8, offset=len(content) - size).reshape(shape)


def _downloaded() -> tuple[Arrays, ...]:
    import keras

    try:
        train, test = keras.datasets.mnist.load_data()
    except Exception as error:
        raise InputError(f"MNIST could not be downloaded ({error}). {_BOTH_WAYS}") from None
    return tuple(
        Arrays(images, labels.astype(np.int32), CLASSES, f"keras.datasets.mnist, {name}")
        for name, (images, labels) in (("train", train), ("test", test))
    )
