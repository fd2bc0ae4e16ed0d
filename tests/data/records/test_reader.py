import itertools

import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.data.records import manifest, tfrecord
from tfbigbatch.data.records.reader import CHUNK_SIZE, RecordReader

COUNTS = (70, 1, 130)


def content(number):
    return f"record {number} ".encode() * (1 + number % 7)


@pytest.fixture
def files(tmp_path):
    """(paths, offsets) of three files of 201 records."""
    numbers, paths = iter(range(sum(COUNTS))), [str(tmp_path / f"file-{file}") for file in range(len(COUNTS))]
    for path, count in zip(paths, COUNTS):
        with tf.io.TFRecordWriter(path) as writer:
            for number in itertools.islice(numbers, count):
                writer.write(content(number))
    return paths, np.concatenate(list(map(tfrecord.offsets, paths)))


@pytest.fixture(params=["held", "mapped"])
def offsets_of(request, tmp_path, monkeypatch):
    """A function from offsets to what a RecordReader takes: in memory, or in a file."""
    if request.param == "held":
        return np.asarray

    def mapped(offsets):
        monkeypatch.setattr(manifest, "MOST_IN_MEMORY", 5)
        np.save(tmp_path / "index.npy", offsets)
        return np.load(tmp_path / "index.npy", mmap_mode="r")

    return mapped


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


def test_all_records_of_all_files_in_order(files, offsets_of):
    reader = RecordReader(files[0], COUNTS, offsets_of(files[1]))
    assert read_all(reader) == [(number, content(number)) for number in range(sum(COUNTS))]


def test_any_pieces_in_any_order(files, offsets_of):
    reader = RecordReader(files[0], COUNTS, offsets_of(files[1]))
    expected = [*range(180, 190), 70, *range(3, 6)]
    assert read(reader, [180, 70, 3], [10, 1, 3]) == [(number, content(number)) for number in expected]


@pytest.mark.parametrize("part", ["length", "checksum of the length", "data", "checksum of the data"])
def test_a_damaged_record_costs_no_other(files, part):
    paths, offsets = files
    for number in (0, 5, 69, 70, 71, CHUNK_SIZE + 90, 200):
        within = {
            "length": 0,
            "checksum of the length": 9,
            "data": 14,
            "checksum of the data": 12 + len(content(number)) + 2,
        }[part]
        file = int(np.searchsorted(np.cumsum(COUNTS), number, side="right"))
        damage(paths[file], int(offsets[number]) + within)
    found = dict(read_all(RecordReader(paths, COUNTS, offsets)))
    for number in range(sum(COUNTS)):
        bad = number in (0, 5, 69, 70, 71, CHUNK_SIZE + 90, 200)
        assert found[number] == (b"" if bad else content(number)), number


def test_a_file_cut_short_costs_what_is_cut_off(files, offsets_of):
    paths, offsets = files
    with open(paths[2], "r+b") as file:
        file.truncate(int(offsets[150]) + 3)
    found = dict(read_all(RecordReader(paths, COUNTS, offsets_of(offsets))))
    assert [number for number, record in found.items() if not record] == list(range(150, 201))
