"""The idx reader on small files made here, and on the real ones where they are at hand."""

import gzip
import os
import struct

import numpy as np
import pytest

from tests.helpers.datasets import real_data
from tfbigbatch.data.in_memory import mnist

TRAIN_IMAGES, TRAIN_LABELS = mnist._FILES["train"]
TEST_IMAGES, TEST_LABELS = mnist._FILES["test"]


def idx(magic, array):
    return struct.pack(f">{1 + array.ndim}I", magic, *array.shape) + array.astype(np.uint8).tobytes()


@pytest.fixture
def folder(tmp_path):
    """A small MNIST: 12 training and 6 test images."""
    random = np.random.RandomState(0)
    for (images, labels), size in ((mnist._FILES["train"], 12), (mnist._FILES["test"], 6)):
        (tmp_path / images).write_bytes(gzip.compress(idx(2051, random.randint(0, 256, (size, 28, 28)))))
        (tmp_path / labels).write_bytes(gzip.compress(idx(2049, np.arange(size) % 10)))
    return tmp_path


def test_the_four_files_are_read(folder):
    train, test = mnist.load(str(folder))
    assert (len(train), len(test)) == (12, 6)
    assert train.features.shape == (12, 28, 28) and train.features.dtype == np.uint8
    np.testing.assert_array_equal(train.labels[:3], [0, 1, 2])


def packed(magic, array):
    return lambda content: gzip.compress(idx(magic, array))


@pytest.mark.parametrize(
    "name, change, said",
    [
        (TRAIN_IMAGES, lambda content: b"", "is truncated or corrupt"),
        (TEST_IMAGES, lambda content: content[:200] + b"\x00\xff\x00" + content[203:], "is truncated or corrupt"),
        (TEST_IMAGES, lambda content: gzip.compress(gzip.decompress(content)[:-100]), "or truncated: its header"),
        (TEST_LABELS, packed(2051, np.zeros((6, 28, 28))), "magic number 2051, expected 2049"),
        (TRAIN_LABELS, packed(2049, np.full(12, 11)), "label 11 of example 0 is out of range"),
        (TRAIN_IMAGES, packed(2051, np.zeros((12, 32, 32))), r"images of \(32, 32\)"),
    ],
)
def test_a_damaged_file_is_named(folder, name, change, said):
    path = folder / name
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ValueError, match=said) as caught:
        mnist.load(str(folder))
    assert name.split("-")[0] in str(caught.value)


def test_missing_files_and_folders_are_told_both_ways(folder):
    os.remove(folder / TEST_LABELS)
    with pytest.raises(ValueError, match=f"lacks {TEST_LABELS}.*--data_dir.*internet"):
        mnist.load(str(folder))
    with pytest.raises(ValueError, match="lacks train-images.*--data_dir.*internet"):
        mnist.load(str(folder / "nowhere"))


def test_the_real_files():
    train, test = mnist.load(real_data.path("mnist"))
    assert (len(train), len(test)) == (60000, 10000)
    np.testing.assert_array_equal(np.bincount(test.labels), [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009])
    np.testing.assert_array_equal(train.labels[:5], [5, 0, 4, 1, 9])
