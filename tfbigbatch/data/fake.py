"""Made-up examples of a data set's shapes and dtypes, so that any experiment runs without its data."""

import numpy as np

from tfbigbatch.data.arrays import Arrays


def images(*, shape, classes, brightest, examples, name):
    """`examples` random uint8 images in [0, brightest], with labels that their mean brightness tells."""
    random = np.random.RandomState(0)
    labels = (np.arange(examples) % classes).astype(np.int32)
    noise = random.randint(0, brightest + 1, size=(examples, *shape))
    level = labels.reshape(-1, *[1] * len(shape)) * brightest // classes
    return Arrays(((noise + level) // 2).astype(np.uint8), labels, classes, f"fake {name}")
