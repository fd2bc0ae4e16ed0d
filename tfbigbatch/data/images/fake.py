"""Made-up images with a dataset's shapes and dtypes, so that any experiment runs without its data."""

from __future__ import annotations

import numpy as np

from tfbigbatch.data.in_memory.arrays import Arrays

_SIZES = {"train": 64, "test": 20}


def train_and_test(shape: tuple[int, ...], classes: int, brightest: int, name: str) -> tuple[Arrays, Arrays]:
    """(train, test) of 64 and 20 random images, uint8 in [0, brightest]; the brightness depends on the label."""

    def images(size: int, source: str) -> Arrays:
        random = np.random.RandomState(0)
        labels = (np.arange(size) % classes).astype(np.int32)
        noise = random.randint(0, brightest + 1, size=(size, *shape))
        level = labels.reshape(-1, *[1] * len(shape)) * brightest // classes
        return Arrays(((noise + level) // 2).astype(np.uint8), labels, classes, source)

    train, test = (images(size, f"fake {name}, {split}") for split, size in _SIZES.items())
    return train, test


def minival(examples: int) -> int:
    """The number of made-up training images to hold out where an experiment holds out `examples`."""
    return min(examples, _SIZES["train"] // 4)


def pictures(image_size: int) -> tuple[Arrays, Arrays]:
    """The same of [image_size, image_size, 3], in five classes."""
    return train_and_test((image_size, image_size, 3), 5, 255, "pictures")
