"""Counts of targets in records, some damaged, or in a part of many; and arrays that a prepared folder keeps."""

import os

import numpy as np
import pytest

from tfbigbatch.data import prepared_text
from tfbigbatch.data.records.shards import write_split


def ids_of(record):
    return np.frombuffer(record, np.uint8)


@pytest.fixture
def rows():
    random = np.random.RandomState(0)
    return [random.randint(1, 9, random.randint(1, 30)).astype(np.uint8) for _ in range(2500)]


def test_every_target_is_counted_and_what_cannot_be_read_is_left_out(tmp_path, rows, monkeypatch):
    split = write_split(str(tmp_path), "train", [row.tobytes() for row in rows])
    found = prepared_text.counts(split, ids_of, 10)
    np.testing.assert_array_equal(found, np.bincount(np.concatenate(rows), minlength=10))
    # Ids outside of the vocabulary.
    assert prepared_text.counts(split, ids_of, 5).tolist() == found[:5].tolist()
    # Of a large set evenly spaced records are counted.
    chosen = np.concatenate([rows[number] for number in (0, 624, 1249, 1874, 2499)])
    with monkeypatch.context() as patch:
        patch.setattr(prepared_text, "_MOST_COUNTED", 5)
        few = prepared_text.counts(split, ids_of, 10)
    np.testing.assert_array_equal(few, np.bincount(chosen, minlength=10))
    with open(split.files[0], "r+b") as file:
        file.seek(int(split.offsets[7]) + 12)
        file.write(b"\xff")

    def refused(record):
        if record == rows[3].tobytes():
            raise ValueError("no record of this set")
        return ids_of(record)

    expected = np.bincount(np.concatenate([row for number, row in enumerate(rows) if number not in (3, 7)]))
    np.testing.assert_array_equal(prepared_text.counts(split, refused, 10)[: len(expected)], expected)


def test_a_folder_keeps_an_array_or_says_what_is_wrong(tmp_path):
    array, folder, name = np.array([3, 0, 5]), str(tmp_path), prepared_text.COUNTS
    digest = prepared_text.write_array(folder, name, array)
    np.testing.assert_array_equal(prepared_text.read_array(folder, name, digest), array)
    for other in (array + 1, array.astype(np.float64), array[:2], array[None]):
        np.save(tmp_path / name, other)
        with pytest.raises(ValueError, match="token_counts.npy does not hold what was written"):
            prepared_text.read_array(folder, name, digest)
    os.remove(tmp_path / name)
    with pytest.raises(ValueError, match="token_counts.npy cannot be read"):
        prepared_text.read_array(folder, name, digest)
    with pytest.raises(ValueError, match="cannot be written"):
        prepared_text.write_array(os.path.join(folder, "none"), name, array)
