import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.datasets import made_records
from tfbigbatch.data.records.reader import CHUNK_SIZE, RecordReader

COUNTS = (70, 1, 130)


def content(number):
    return f"record {number} ".encode() * (1 + number % 7)


@pytest.fixture
def split(tmp_path):
    """Three files of 201 records."""
    return made_records.write(tmp_path, map(content, range(sum(COUNTS))), COUNTS)


def damage(path, byte):
    with open(path, "r+b") as file:
        file.seek(byte)
        old = file.read(1)
        file.seek(byte)
        file.write(bytes([old[0] ^ 1]))


def read(reader, first, size):
    pieces = np.array(first, np.int64), np.array(size, np.int64)
    return [(int(number), record.numpy()) for record, number in reader.records(pieces).unbatch()]


def read_all(reader):
    return read(reader, *reader.chunks.extent(tf.range(reader.chunks.count, dtype=tf.int64)))


def test_any_pieces_in_any_order(split):
    reader = RecordReader(split)
    assert read_all(reader) == [(number, content(number)) for number in range(sum(COUNTS))]
    expected = [*range(180, 190), 70, *range(3, 6)]
    assert read(reader, [180, 70, 3], [10, 1, 3]) == [(number, content(number)) for number in expected]


@pytest.mark.parametrize("part", ["length", "checksum of the length", "data", "checksum of the data"])
def test_a_damaged_record_costs_no_other(split, part):
    damaged = (0, 5, 69, 70, 71, CHUNK_SIZE + 90, 200)
    for number in damaged:
        within = {
            "length": 0,
            "checksum of the length": 9,
            "data": 14,
            "checksum of the data": 12 + len(content(number)) + 2,
        }[part]
        file = int(np.searchsorted(np.cumsum(COUNTS), number, side="right"))
        damage(split.files[file], int(split.offsets[number]) + within)
    found = dict(read_all(RecordReader(split)))
    assert found == {number: b"" if number in damaged else content(number) for number in range(sum(COUNTS))}


def test_a_file_cut_short_costs_what_is_cut_off(split):
    with open(split.files[2], "r+b") as file:
        file.truncate(int(split.offsets[150]) + 3)
    found = dict(read_all(RecordReader(split)))
    assert [number for number, record in found.items() if not record] == list(range(150, 201))
