"""Counts of targets: of records, some damaged, or of a part of many; and as a prepared folder keeps them."""

import os

import numpy as np
import pytest

from tfbigbatch.data import token_counts
from tfbigbatch.data.records.shards import write_split


def ids_of(record):
    return np.frombuffer(record, np.uint8)


@pytest.fixture
def rows():
    random = np.random.RandomState(0)
    return [random.randint(1, 9, random.randint(1, 30)).astype(np.uint8) for _ in range(2500)]


def test_every_target_is_counted_and_what_cannot_be_read_is_left_out(tmp_path, rows):
    split = write_split(str(tmp_path), "train", [row.tobytes() for row in rows])
    found = token_counts.of_records(split, ids_of, 10)
    np.testing.assert_array_equal(found.counts, np.bincount(np.concatenate(rows), minlength=10))
    assert found.counts.dtype == np.int64 and "counted now in its records" in found.source
    # Ids outside of the vocabulary.
    assert token_counts.of_records(split, ids_of, 5).counts.tolist() == found.counts[:5].tolist()
    with open(split.files[0], "r+b") as file:
        file.seek(int(split.offsets[7]) + 12)
        file.write(b"\xff")

    def refused(record):
        if record == rows[3].tobytes():
            raise ValueError("no record of this set")
        return ids_of(record)

    expected = np.bincount(np.concatenate([row for number, row in enumerate(rows) if number not in (3, 7)]))
    left = token_counts.of_records(split, refused, 10).counts
    np.testing.assert_array_equal(left[: len(expected)], expected)


def test_of_a_large_set_evenly_spaced_records_are_counted(tmp_path, rows):
    split = write_split(str(tmp_path), "train", [row.tobytes() for row in rows])
    found = token_counts.of_records(split, ids_of, 10, most_records=5)
    chosen = [0, 624, 1249, 1874, 2499]
    np.testing.assert_array_equal(
        found.counts, np.bincount(np.concatenate([rows[number] for number in chosen]), minlength=10)
    )
    assert "counted now in 5 of its 2,500 records" in found.source


def test_a_folder_keeps_them_or_says_what_is_wrong(tmp_path):
    counts, folder = np.array([3, 0, 5]), str(tmp_path)
    content = token_counts.save(folder, counts)
    np.testing.assert_array_equal(token_counts.load(folder, content, 3, "Again."), counts)
    # Prepared by an earlier version: a file that is there by chance is not read.
    assert token_counts.load(folder, {}, 3, "Again.") is None and token_counts.save(folder, None) == {}
    path = os.path.join(folder, token_counts.NAME)
    for other in (counts + 1, counts.astype(np.float64), counts[:2]):
        np.save(path, other)
        with pytest.raises(ValueError, match="token_counts.npy does not hold the counts of the tokens.* Again."):
            token_counts.load(folder, content, 3, "Again.")
    os.remove(path)
    with pytest.raises(ValueError, match="token_counts.npy cannot be read.* Again."):
        token_counts.load(folder, content, 3, "Again.")
    with pytest.raises(ValueError, match="cannot be written"):
        token_counts.save(os.path.join(folder, "none"), counts)
