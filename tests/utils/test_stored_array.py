import struct

import numpy as np
import pytest

from tfbigbatch.utils.stored_array import stored_array

VALUES = np.array([5, -1, 2**40, 7, 9], np.int64)


@pytest.fixture
def path(tmp_path):
    path = str(tmp_path / "some.npz")
    np.savez(path, other=np.arange(3), values=VALUES)
    return path


def test_values_by_index_and_as_a_whole(path):
    stored = stored_array(path, "values")
    assert len(stored) == 5
    np.testing.assert_array_equal(np.asarray(stored), VALUES)
    for key in (2, -1, np.array([4, 0, -5]), np.array([[1], [2]]), np.zeros(0, np.int64)):
        np.testing.assert_array_equal(stored[key], VALUES[key])
        assert stored[key].dtype == np.int64


@pytest.mark.parametrize("part", [slice(1, 4), slice(None, -2), slice(-2, None), slice(4, 2), slice(None)])
def test_slices_stay_in_the_file(path, part):
    stored = stored_array(path, "values")[part]
    assert len(stored) == len(VALUES[part])
    np.testing.assert_array_equal(np.asarray(stored), VALUES[part])
    np.testing.assert_array_equal(stored[np.arange(len(stored))], VALUES[part])


@pytest.mark.parametrize("key", [5, -6, np.array([0, 5])])
def test_an_index_out_of_range(path, key):
    with pytest.raises(IndexError, match="of 5 values in .*some.npz"):
        stored_array(path, "values")[key]
    with pytest.raises(IndexError, match="slices of neighbours"):
        stored_array(path, "values")[::2]


def test_what_is_no_array_of_whole_numbers(tmp_path, path):
    np.savez_compressed(tmp_path / "small.npz", values=VALUES)
    np.savez(tmp_path / "floats.npz", values=VALUES / 2)
    np.savez(tmp_path / "matrix.npz", values=VALUES[None])
    (tmp_path / "text.npz").write_text("values")
    for name in ("small", "floats", "matrix", "text", "none"):
        with pytest.raises(ValueError, match=f"{name}.npz cannot be read"):
            stored_array(str(tmp_path / f"{name}.npz"), "values")
    with pytest.raises(ValueError, match="cannot be read"):
        stored_array(path, "offsets")


def test_a_file_that_was_cut_after_it_was_opened(path):
    stored = stored_array(path, "values")
    with open(path, "r+b") as file:
        file.truncate(stored.first_byte + 20)
    np.testing.assert_array_equal(stored[1], VALUES[1])
    with pytest.raises(OSError, match="ends before its last value"):
        stored[2]
    with pytest.raises(OSError, match="ends before its last value"):
        np.asarray(stored)


def test_the_header_in_the_file_counts_and_not_the_directorys(path):
    with open(path, "rb") as file:
        content = file.read()
    first = stored_array(path, "values").first_byte
    assert struct.unpack("<5q", content[first : first + 40]) == tuple(VALUES)
