"""Made-up examples of a data set's shapes and dtypes, so that any experiment runs without its data."""

import numpy as np

from tfbigbatch.data.arrays import Arrays
from tfbigbatch.data.corpus import Corpus

_TRAIN_SIZE, _TEST_SIZE = 64, 20
_PICTURE_CLASSES = 5
_WORDS, _TEXT_SIZES = 12, (2000, 300, 250)


def train_and_test(images):
    """(train, test) of 64 and 20 random images whose brightness tells their label.

    Args:
      images: the module of an image data set, with SHAPE, CLASSES and BRIGHTEST.
    """
    name = images.__name__.rpartition(".")[2]
    return _made_up(images.SHAPE, images.CLASSES, images.BRIGHTEST, name)


def pictures(image_size):
    """The same of [image_size, image_size, 3], in five classes."""
    return _made_up((image_size, image_size, 3), _PICTURE_CLASSES, 255, "pictures")


def _made_up(shape, classes, brightest, name):
    return tuple(
        _images(shape, classes, brightest, size, f"fake {name}, {split}")
        for split, size in (("train", _TRAIN_SIZE), ("test", _TEST_SIZE))
    )


def _images(shape, classes, brightest, size, source):
    random = np.random.RandomState(0)
    labels = (np.arange(size) % classes).astype(np.int32)
    noise = random.randint(0, brightest + 1, size=(size, *shape))
    level = labels.reshape(-1, *[1] * len(shape)) * brightest // classes
    return Arrays(((noise + level) // 2).astype(np.uint8), labels, classes, source)


def text():
    """A Corpus of 12 words and 2,000, 300 and 250 tokens, in which most tokens are told by the one before."""
    random = np.random.RandomState(0)
    parts = []
    for size in _TEXT_SIZES:
        steps = np.where(random.rand(size) < 0.8, 1, random.randint(0, _WORDS, size))
        parts.append((np.cumsum(steps) % _WORDS).astype(np.int32))
    return Corpus(*parts, vocabulary=tuple(f"word{number}" for number in range(_WORDS)))
