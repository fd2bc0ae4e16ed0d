"""Our frames and examples against TensorFlow's."""

import array

import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.data.records import tfrecord


def test_the_checksum_of_known_bytes():
    # From RFC 3720, B.4, and the customary check value.
    # Masked as TensorFlow's tsl/lib/hash/crc32c.h does.
    for content, checksum in (
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (b"", 0),
    ):
        rotated = (checksum >> 15 | checksum << 17) & 0xFFFFFFFF
        assert tfrecord.masked_crc32c(content) == (rotated + 0xA282EAD8) % (1 << 32)


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


def test_frames_are_taken_apart_and_damage_is_found():
    generator = np.random.default_rng(0)
    records = [generator.bytes(size) for size in (1, 63, 64, 511, 2000)]
    frames = list(map(tfrecord.framed, records))
    assert list(map(tfrecord.unframed, frames)) == records
    for place in (0, 9, 14, -1):
        for frame in frames:
            broken = bytearray(frame)
            broken[place] ^= 1
            assert tfrecord.unframed(bytes(broken)) == b""
    cut = [b"", frames[1][:-1], frames[2][:10], frames[3] + b"x"]
    assert list(map(tfrecord.unframed, cut)) == [b""] * 4
