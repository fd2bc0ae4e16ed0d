"""Images, their labels and others' TFRecords, damaged by a seeded fuzzer, through what prepares them."""

import array
import gzip
import json
import struct

import pytest

from tests.fuzz.test_fuzzed_questions import PASSAGE
from tests.fuzz.test_fuzzed_texts import emptied
from tests.helpers import mutations
from tests.helpers.datasets import image_sets
from tests.helpers.fuzz_judge import few_and_many, judge
from tfbigbatch.data.bert import manifest
from tfbigbatch.data.bert.prepare import existing as existing_bert
from tfbigbatch.data.finetuning import race
from tfbigbatch.data.images.prepare import check, existing, prepare
from tfbigbatch.data.in_memory import mnist
from tfbigbatch.data.records import index, tfrecord

IMAGE = image_sets.encoded()
# Values of a feature that nobody expects there.
ODD = (0, -1, 2**62, b"", b"x", b"\xff\xfe", b"label " * 200_000, b"\xff" * 1_000_000)


def with_endless_number(record):
    """An example in which a million bytes of 0xFF are a list of ints, not of bytes."""
    sizes = b"\xc4\x84\x3d\x0a\xc0\x84\x3d\xff\xff"
    return record.replace(b"\x0a" + sizes, b"\x1a" + sizes)


@few_and_many(60, 2000)
def test_images(seeds):
    whole = [IMAGE, image_sets.encoded(kind="PNG"), image_sets.encoded(kind="GIF"), image_sets.encoded(kind="BMP")]

    def case(choices):
        try:
            found = check.check(mutations.of_bytes(choices, choices.choice(whole)))
        except check.BadImage as reason:
            assert str(reason)
        else:
            assert found.height > 0 and found.width > 0

    judge(seeds, case)


@few_and_many(12, 400)
def test_a_folder_of_images(tmp_path, seeds):
    """Every image is in the set, or left out with a reason."""

    def case(choices):
        files = image_sets.files_of("train", 4)
        damaged = choices.sample(sorted(files), 3)
        for name in damaged:
            files[name] = mutations.of_bytes(choices, files[name])
        source = image_sets.write_folder(emptied(tmp_path / "source"), files)
        options = prepare.Options(max_bad_share=0.5, validation_share=0.0)
        content, _ = prepare.prepare(source, str(emptied(tmp_path / "out")), options)
        left_out = {entry["name"] for entry in content["left_out"]}
        assert left_out <= set(damaged)
        assert content["splits"]["train"]["examples"] + len(left_out) == len(files)

    assert judge(seeds, case)["fine"] > 0


@few_and_many(60, 2000)
def test_packed_tars_and_files(tmp_path, seeds):
    """RACE's tar.gz is read as a stream; MNIST's files are packed too."""
    passages = image_sets.tar_of({"RACE/dev/high/1.txt": json.dumps(PASSAGE).encode()}, mode="w:gz")
    labels = struct.pack(">II", 2049, 60) + bytes(60)
    images = struct.pack(">IIII", 2051, 3, 28, 28) + bytes(3 * 28 * 28)

    def case(choices):
        if choices.random() < 0.5:
            (tmp_path / "RACE.tar.gz").write_bytes(mutations.of_bytes(choices, passages))
            race.read(str(tmp_path), "dev")
        else:
            content, magic, dimensions = choices.choice(((labels, 2049, 1), (images, 2051, 3)))
            packed = gzip.compress(mutations.of_bytes(choices, content))
            packed = mutations.of_bytes(choices, packed) if choices.random() < 0.5 else packed
            (tmp_path / "idx.gz").write_bytes(packed)
            mnist._read_idx(str(tmp_path / "idx.gz"), magic, dimensions)

    assert judge(seeds, case)["refused"] > 0


def of_others(choices):
    """A record as others write it, of which a feature may be odd, missing, or the whole damaged."""
    features = {
        "image/encoded": IMAGE,
        "image/class/label": choices.randint(1, 3),
        "image/class/synset": b"n01440764",
        "image/class/text": b"tench",
    }
    kind = choices.random()
    if kind < 0.1:
        features[choices.choice(sorted(features))] = choices.choice(ODD)
    elif kind < 0.15:
        del features[choices.choice(sorted(features))]
    record = with_endless_number(tfrecord.example(features))
    return mutations.of_bytes(choices, record) if kind > 0.95 else record


@few_and_many(100, 3000)
def test_records_of_images_that_others_made(tmp_path, seeds):
    path = str(tmp_path / "train-00000-of-00001")

    def case(choices):
        records = [of_others(choices) for _ in range(choices.randint(0, 6))]
        content = b"".join(map(tfrecord.framed, records))
        with open(path, "wb") as file:
            file.write(mutations.of_bytes(choices, content) if choices.random() < 0.2 else content)
        keys = existing.keys_of(path)
        found = existing.index_file(existing.Task(path, keys), lambda: None)
        assert bool(found["names"]) == bool(len(found["offsets"]))
        existing.classes_of({"train": [found]}, keys, str(tmp_path))

    outcomes = judge(seeds, case)
    assert min(outcomes["fine"], outcomes["refused"]) > 0


@few_and_many(100, 3000)
def test_records_for_bert_that_others_made(tmp_path, seeds):
    path = str(tmp_path / "records")
    keys = manifest.STANDARD_KEYS

    def case(choices):
        features = {keys[name]: [1] * 8 for name in ("ids", "mask", "types")}
        features |= {keys[name]: [1] * 2 for name in ("positions", "labels")}
        features |= {keys["weights"]: array.array("f", [1.0] * 2), keys["next_sentence"]: 0}
        if choices.random() < 0.5:
            features[choices.choice(sorted(features))] = choices.choice(ODD)
        record = with_endless_number(tfrecord.example(features))
        if choices.random() < 0.3:
            record = mutations.of_bytes(choices, record)
        content = tfrecord.framed(record) * 3
        with open(path, "wb") as file:
            file.write(mutations.of_bytes(choices, content) if choices.random() < 0.2 else content)
        if existing_bert.find(path) is None:
            return
        shapes = existing_bert.shapes_of(path)
        assert len(existing_bert.index(shapes, path, lambda: None)) >= 1

    outcomes = judge(seeds, case)
    assert min(outcomes["fine"], outcomes["refused"]) > 0


@few_and_many(100, 3000)
def test_the_index_of_records(tmp_path, seeds):
    path = str(tmp_path / "records")
    frames = [tfrecord.framed(bytes([number]) * (10 + 7 * number)) for number in range(12)]
    content = b"".join(frames)

    def case(choices):
        damaged = mutations.of_bytes(choices, content)
        with open(path, "wb") as file:
            file.write(damaged)
        offsets = index.offsets(path).tolist()
        # From frame to frame, to the end: no byte of the file is of no record.
        ends = [*offsets[1:], len(damaged)]
        for first, last in zip(offsets, ends):
            length = tfrecord.LENGTH.unpack_from(damaged, first)[0]
            assert last - first == tfrecord.HEADER_BYTES + length + tfrecord.FOOTER_BYTES

    outcomes = judge(seeds, case)
    assert min(outcomes["fine"], outcomes["refused"]) > 0


def test_a_number_without_an_end_is_refused_at_once():
    record = memoryview(with_endless_number(tfrecord.example({"label": b"\xff" * 1_000_000})))

    def case(choices):
        with pytest.raises(ValueError, match="a number of more than 64 bits"):
            list(tfrecord.parsed(record))

    judge([0], case)
