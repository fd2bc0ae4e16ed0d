import numpy as np
from sklearn.datasets import load_digits

from tfbigbatch.data.in_memory import digits


def test_all_1797_real_images_of_scikit_learn_are_split_without_overlap():
    train, test = digits.load()
    assert (len(train), len(test)) == (1437, 360)
    assert train.features.shape[1:] == digits.SHAPE and train.features.dtype == np.uint8
    theirs = load_digits()
    order = np.random.RandomState(0).permutation(len(theirs.target))
    np.testing.assert_array_equal(np.concatenate([train.features, test.features]), theirs.images[order])
    np.testing.assert_array_equal(np.concatenate([train.labels, test.labels]), theirs.target[order])
    assert theirs.images.max() == digits.BRIGHTEST and set(theirs.target) == set(range(digits.CLASSES))
