"""Made-up examples of a data set's shapes and dtypes, so that any experiment runs without its data."""

import numpy as np

from tfbigbatch.data.arrays import Arrays
from tfbigbatch.data.corpus import Corpus

_TRAIN_SIZE, _TEST_SIZE = 64, 20
_WORDS, _TEXT_SIZES = 12, (2000, 300, 250)


def train_and_test(images):
    """(train, test) of 64 and 20 random images whose brightness tells their label.

    Args:
      images: the module of an image data set, with SHAPE, CLASSES and BRIGHTEST.
    """
    name = images.__name__.rpartition(".")[2]
    return _made_up(images, _TRAIN_SIZE, f"fake {name}, train"), _made_up(images, _TEST_SIZE, f"fake {name}, test")


def _made_up(images, size, source):
    random = np.random.RandomState(0)
    labels = (np.arange(size) % images.CLASSES).astype(np.int32)
    noise = random.randint(0, images.BRIGHTEST + 1, size=(size, *images.SHAPE))
    level = labels.reshape(-1, *[1] * len(images.SHAPE)) * images.BRIGHTEST // images.CLASSES
    return Arrays(((noise + level) // 2).astype(np.uint8), labels, images.CLASSES, source)


def text():
    """A Corpus of 12 words and 2,000, 300 and 250 tokens, in which most tokens are told by the one before."""
    random = np.random.RandomState(0)
    parts = []
    for size in _TEXT_SIZES:
        steps = np.where(random.rand(size) < 0.8, 1, random.randint(0, _WORDS, size))
        parts.append((np.cumsum(steps) % _WORDS).astype(np.int32))
    return Corpus(*parts, vocabulary=tuple(f"word{number}" for number in range(_WORDS)))
