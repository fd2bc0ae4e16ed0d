"""scikit-learn's handwritten digits: 1,797 real images of 8 x 8 that come with the package."""

import numpy as np

from tfbigbatch.data.in_memory.arrays import Arrays
from tfbigbatch.errors import missing_extra

SHAPE = (8, 8)
CLASSES = 10
BRIGHTEST = 16
_TRAIN_SIZE = 1437


def load(data_dir=None):
    """(train, test) of 1,437 and 360 images, uint8 in [0, 16]; a fixed shuffle, the same in every run.

    Args:
      data_dir: not needed; the images come with scikit-learn.

    Raises:
      ValueError: scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise missing_extra("scikit-learn", "models") from None
    digits = load_digits()
    # The writers follow one another in the file, so a split by position would test on unseen writers only.
    shuffled = np.random.RandomState(0).permutation(len(digits.target))
    images, labels = digits.images[shuffled].astype(np.uint8), digits.target[shuffled].astype(np.int32)
    return tuple(
        Arrays(images[part], labels[part], CLASSES, f"scikit-learn digits, {name}")
        for name, part in (("train", slice(None, _TRAIN_SIZE)), ("test", slice(_TRAIN_SIZE, None)))
    )
