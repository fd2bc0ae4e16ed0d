import numpy as np

from tfbigbatch.data.in_memory import digits


def test_all_1797_real_images_are_split_without_overlap():
    train, test = digits.load()
    assert (len(train), len(test)) == (1437, 360)
    assert train.features.shape[1:] == digits.SHAPE and train.features.dtype == np.uint8
    together = np.concatenate([train.features, test.features])
    assert together.max() == digits.BRIGHTEST
    assert together.sum(dtype=np.int64) == 561718
    assert set(train.labels) == set(test.labels) == set(range(digits.CLASSES))


def test_they_are_those_of_scikit_learn():
    from sklearn.datasets import load_digits

    theirs = load_digits()
    found = np.concatenate([part.labels for part in digits.load()])
    order = np.random.RandomState(0).permutation(len(theirs.target))
    np.testing.assert_array_equal(found, theirs.target[order])
