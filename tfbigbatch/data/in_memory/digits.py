"""scikit-learn's handwritten digits: 1,797 images of 8 x 8, part of the package."""

from __future__ import annotations

import numpy as np

from tfbigbatch.data.in_memory.arrays import Arrays
from tfbigbatch.errors import missing_extra

SHAPE = (8, 8)
CLASSES = 10
BRIGHTEST = 16
_TRAIN_SIZE = 1437


def load(data_dir: str | None = None) -> tuple[Arrays, ...]:
    """1,437 training and 360 test images, uint8 in [0, 16], split after a fixed shuffle.

    Args:
      data_dir: not used.

    Raises:
      ValueError: scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise missing_extra("scikit-learn", "models") from None
    digits = load_digits()
    # The file is ordered by writer: without a shuffle, the test set would have other writers.
    shuffled = np.random.RandomState(0).permutation(len(digits.target))
    images, labels = digits.images[shuffled].astype(np.uint8), digits.target[shuffled].astype(np.int32)
    return tuple(
        Arrays(images[part], labels[part], CLASSES, f"scikit-learn digits, {name}")
        for name, part in (("train", slice(None, _TRAIN_SIZE)), ("test", slice(_TRAIN_SIZE, None)))
    )
