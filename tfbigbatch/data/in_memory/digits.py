"""scikit-learn's handwritten digits: 1,797 images of 8 x 8, part of the package."""

from __future__ import annotations

import gzip
import importlib.util
import os

import numpy as np

from tfbigbatch.data.in_memory.arrays import Arrays
from tfbigbatch.errors import missing_extra

SHAPE = (8, 8)
CLASSES = 10
BRIGHTEST = 16
_TRAIN_SIZE = 1437


def load(data_dir: str | None = None) -> tuple[Arrays, ...]:
    """1,437 training and 360 test images, uint8 in [0, 16], split after a fixed shuffle; `data_dir` is not used.

    Raises:
      ValueError: scikit-learn is not installed.
    """
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        raise missing_extra("scikit-learn", "models")
    path = os.path.join(os.path.dirname(package.origin), "datasets", "data", "digits.csv.gz")
    # Its file alone: the package takes a third of a second to import, SciPy and all. A row has 64 pixels and a label.
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = np.array([line.split(",") for line in file], np.float64)
    # The file is ordered by writer: without a shuffle, the test set would have other writers.
    rows = rows[np.random.RandomState(0).permutation(len(rows))]
    images, labels = rows[:, :-1].reshape(-1, *SHAPE).astype(np.uint8), rows[:, -1].astype(np.int32)
    return tuple(
        Arrays(images[part], labels[part], CLASSES, f"scikit-learn digits, {name}")
        for name, part in (("train", slice(None, _TRAIN_SIZE)), ("test", slice(_TRAIN_SIZE, None)))
    )
