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


def test_the_split_is_the_same_every_time():
    np.testing.assert_array_equal(digits.load()[1].labels, digits.load()[1].labels)


def test_they_are_those_of_scikit_learn(monkeypatch):
    from sklearn.datasets import load_digits

    theirs = load_digits()
    rows = digits._rows()
    np.testing.assert_array_equal(rows, np.column_stack([theirs.data, theirs.target]))
    # Where its file has another place.
    monkeypatch.setattr(digits.os.path, "exists", lambda path: False)
    np.testing.assert_array_equal(digits._rows(), rows)
