"""Our frames, examples and index against TensorFlow's, and records read in any order."""

import array
import gzip

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.datasets import made_records
from tfbigbatch.data.records import tfrecord
from tfbigbatch.data.records.tfrecord import NO_RECORD, RandomAccessReader


def test_tensorflow_reads_the_frames_of_records_of_any_length(tmp_path):
    generator = np.random.default_rng(0)
    # Around the lengths at which implementations of the checksum change their method.
    records = [generator.bytes(size) for size in (*range(70), *range(508, 520), 1023, 1024, 1025, 100000)]
    path = tmp_path / "records"
    path.write_bytes(b"".join(map(tfrecord.framed, records)))
    assert [record.numpy() for record in tf.data.TFRecordDataset(str(path))] == records


@pytest.mark.parametrize("record", [b"hello, this is no example", tfrecord.example({"a": 1})[:-3], b"\x0a\xff"])
def test_what_is_no_example_is_refused(record):
    with pytest.raises(ValueError, match="no tf.train.Example"):
        tfrecord.values(record)


def test_one_feature_of_bytes_is_taken_or_missed():
    record = tfrecord.example({"image": b"\xff\xd8" * 50, "empty": b"", "one": 1})
    assert tfrecord.bytes_of(record, "image") == b"\xff\xd8" * 50 and tfrecord.bytes_of(record, "empty") == b""
    for name in ("one", "other"):
        with pytest.raises(ValueError, match=f"no feature '{name}' of bytes"):
            tfrecord.bytes_of(record, name)


def test_values_are_read_without_tensorflow():
    features = {"ints": [300, 2], "bytes": b"1", "floats": array.array("f", [0.5, -2.0, 1.0])}
    values = tfrecord.values(tfrecord.example(features))
    assert {name: list(found) for name, found in values.items()} == {
        **features,
        "bytes": [b"1"],
        "floats": [0.5, -2, 1],
    }
    example = tf.train.Example.FromString(tfrecord.example(features))
    example.features.feature["none"].CopyFrom(tf.train.Feature())
    assert len(tfrecord.values(example.SerializeToString())["none"]) == 0


def test_an_example_has_the_bytes_that_tensorflow_gives_it():
    features = {"image": b"\xff\xd8" * 50, "label": 2**62, "ids": np.arange(-1, 200), "weights": np.ones(3, np.float32)}
    theirs = tf.train.Example()
    theirs.features.feature["image"].bytes_list.value.append(features["image"])
    theirs.features.feature["label"].int64_list.value.append(2**62)
    theirs.features.feature["ids"].int64_list.value.extend(range(-1, 200))
    theirs.features.feature["weights"].float_list.value.extend([1.0] * 3)
    assert tfrecord.example(features) == theirs.SerializeToString(deterministic=True)


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
    offsets = tfrecord.offsets(str(path))
    assert offsets.dtype == np.int64 and offsets[0] == 0
    # Within a function of another dataset: by itself TensorFlow 2.20 loses the op's byte_offsets.
    read = tf.data.Dataset.from_tensor_slices(offsets[::-1]).flat_map(lambda offset: record_at(str(path), offset))
    assert [record.numpy() for record in read] == records[::-1]
    path.write_bytes(b"")
    found = tfrecord.offsets(str(path))
    assert found.shape == (0,) and found.dtype == np.int64


def changed(place, content):
    return lambda data: data[:place] + content + data[place + len(content) :]


@pytest.mark.parametrize(
    "damage, said",
    [
        (lambda data: data[:-1], r"is truncated: the record at byte \d+ ends at byte \d+, the file at \d+"),
        (lambda data: data + b"1234567", r"broken at byte \d\d\d+: the length of a record"),
        (changed(21, b"\1"), "not a TFRecord file, or it is broken at byte 21"),
        (gzip.compress, "broken at byte 0.*compressed file has to be unpacked"),
    ],
)
def test_a_broken_file_is_named_with_the_place(file, damage, said):
    path, _ = file
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=f"{path.name}.*{said}"):
        tfrecord.offsets(str(path))


RECORDS = [bytes([number]) * (number * 7 % 90 + 1) for number in range(20)]
COUNTS = (0, 8, 0, 12)


def test_any_records_are_read_in_any_order(tmp_path):
    reader, numbers = (
        RandomAccessReader(made_records.write(tmp_path, RECORDS, COUNTS)),
        [19, 3, 3, NO_RECORD, 0, 8, 7, NO_RECORD],
    )
    found = reader.read(np.array(numbers, np.int64))
    assert found.tolist() == [b"" if number == NO_RECORD else RECORDS[number] for number in numbers]
    assert reader.read(np.arange(20)).tolist() == RECORDS and reader.read(np.zeros(0, np.int64)).tolist() == []


def test_what_is_damaged_or_gone_is_empty(tmp_path):
    split = made_records.write(tmp_path, RECORDS, COUNTS)
    with open(split.files[1], "r+b") as file:
        file.seek(int(split.offsets[5]) + tfrecord.HEADER_BYTES)
        file.write(b"?")
        file.seek(int(split.offsets[6]))
        file.write(b"?")
        file.truncate(split.bytes[1] - 1)
    (tmp_path / "train-3").unlink()
    found = RandomAccessReader(split).read(np.arange(20)).tolist()
    assert found == [*RECORDS[:5], *[b""] * 15]
