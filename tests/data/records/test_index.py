"""The index of a TFRecord file against TensorFlow's own reading and writing."""

import gzip

import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.data.records import index


@pytest.fixture
def file(tmp_path):
    """(path, its records), as TensorFlow writes them."""
    generator = np.random.default_rng(0)
    records = [generator.bytes(size) for size in (5, 0, 3000, 1, 70000, 12)]
    path = tmp_path / "train-00000-of-00001"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    return path, records


def record_at(path, offset):
    variant = tf.raw_ops.TFRecordDatasetV2(filenames=[path], compression_type="", buffer_size=0, byte_offsets=[offset])
    return tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string)).take(1)


def test_each_offset_gives_its_record(file):
    path, records = file
    offsets = index.offsets(str(path))
    assert offsets.dtype == np.int64 and offsets[0] == 0
    # Within a function of another dataset: by itself TensorFlow 2.20 loses the op's byte_offsets.
    read = tf.data.Dataset.from_tensor_slices(offsets[::-1]).flat_map(lambda offset: record_at(str(path), offset))
    assert [record.numpy() for record in read] == records[::-1]


def test_an_empty_file_has_no_records(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    found = index.offsets(str(tmp_path / "empty"))
    assert found.shape == (0,) and found.dtype == np.int64


def changed(place, content):
    return lambda data: data[:place] + content + data[place + len(content) :]


@pytest.mark.parametrize(
    "damage, said",
    [
        (lambda data: data[:-1], r"is truncated: the record at byte \d+ ends at byte \d+, the file at \d+"),
        (lambda data: data + b"1234567", "is truncated: 7 bytes at byte .*begins with 12"),
        (changed(21, b"\1"), "not a TFRecord file, or it is broken at byte 21"),
        (gzip.compress, "broken at byte 0.*compressed file has to be unpacked"),
    ],
)
def test_a_broken_file_is_named_with_the_place(file, damage, said):
    path, _ = file
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=f"{path.name}.*{said}"):
        index.offsets(str(path))
