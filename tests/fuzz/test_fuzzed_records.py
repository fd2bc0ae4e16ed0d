"""Prepared TFRecords, damaged by a seeded fuzzer, through the pipelines that train and evaluate on them.

Building a pipeline takes a second, reading a record no time: each seed damages a third of a set's records.
"""

import os
import random

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import mutations
from tests.helpers.datasets import bert_sets, made_images, translation_sets
from tests.helpers.fuzz_judge import few_and_many, judge
from tfbigbatch.data.bert import manifest as bert_manifest
from tfbigbatch.data.bert.dataset import BertRecords
from tfbigbatch.data.images.dataset import ImageRecords
from tfbigbatch.data.records import manifest as record_manifest
from tfbigbatch.data.records import tfrecord
from tfbigbatch.data.translation.dataset import TranslationRecords

BATCH = 8
# Records that are whole, each with the checksum of its frame, and not what the set says.
ODD = (
    tfrecord.example({"label": 3}),
    tfrecord.example({"ids": 3, "source": 3, "image/encoded": 3}),
    tfrecord.example({"ids": b"\xff" * 64, "source": b"\xff\xff", "target": b"\xff\xff"}),
    tfrecord.example({"ids": b"\1" * 1_000_000, "source": b"\1" * 1_000_000, "target": b"", "image/encoded": b"x"}),
    tfrecord.example({"image/encoded": b"", "image/class/label": b"label " * 160_000}),
    b"no example at all",
)


def damaged(choices, split):
    """Damages a third of a split's records in their files; the numbers of those that are bad then, sorted.

    A record is replaced by one of as many bytes or fewer, or bytes of its frame are changed: what follows stays.
    """
    ends, bad = np.cumsum(split.counts), []
    numbers = choices.sample(range(split.examples), split.examples // 3)
    for number in numbers:
        file = int(np.searchsorted(ends, number, side="right"))
        first = int(split.offsets[number])
        last = int(split.bytes[file]) if number + 1 == ends[file] else int(split.offsets[number + 1])
        with open(split.files[file], "r+b") as opened:
            opened.seek(first)
            frame = opened.read(last - first)
            changed = _flipped(choices, frame) if choices.random() < 0.5 else _zeros(choices, frame)
            opened.seek(first)
            opened.write(changed)
        bad.append(number)
    return sorted(bad)


def _flipped(choices, frame):
    changed = bytearray(frame)
    changed[choices.randrange(len(changed))] ^= 1 << choices.randrange(8)
    return bytes(changed)


def _zeros(choices, frame):
    first = choices.randrange(len(frame))
    changed = frame[:first] + bytes(len(frame) - first)
    return changed if changed != frame else _flipped(choices, frame)


def with_odd_ones(choices, folder, split, name):
    """A copy of a split in which a third of the records are of ODD; and their numbers."""
    files, counts, offsets, sizes, bad, number = [], [], [], [], [], 0
    for file, count in zip(split.files, split.counts):
        with open(file, "rb") as opened:
            content = opened.read()
        begins = split.offsets[number : number + count].tolist()
        frames = [content[first:last] for first, last in zip(begins, [*begins[1:], len(content)])]
        for place in range(len(frames)):
            if choices.random() < 1 / 3:
                frames[place] = tfrecord.framed(choices.choice(ODD))
                bad.append(number + place)
        files.append(str(folder / f"{name}-{os.path.basename(file)}"))
        with open(files[-1], "wb") as opened:
            opened.write(b"".join(frames))
        offsets.append(np.cumsum([0, *map(len, frames)])[:-1])
        sizes.append(sum(map(len, frames)))
        counts.append(count)
        number += count
    return record_manifest.Split.of_files(split.name, files, offsets, sizes), bad


def weights_of(records):
    """The weight of each record in evaluation, those of padding not."""
    found = []
    for _, _, weights in records.evaluation_batches(tf.distribute.InputContext(), batch_size=BATCH):
        weights = weights["masked_lm"] if isinstance(weights, dict) else weights
        found.append(tf.reduce_max(tf.reshape(weights, [BATCH, -1]), axis=1).numpy())
    return np.concatenate(found)[: len(records)]


def hold(records, bad):
    """The bad records, and no others, weigh nothing, and each is counted."""
    weights = weights_of(records)
    assert np.flatnonzero(weights == 0.0).tolist() == bad
    assert records.bad.count == len(bad)
    # Training goes on past them.
    arguments = {"batch_size": BATCH, "seed": 1, "first_step": 0, "last_step": 4}
    assert len(list(records.training_batches(tf.distribute.InputContext(), **arguments))) == 4
    assert set(records.bad.numbers) == set(bad)


def judge_sets(seeds, tmp_path, make):
    """`make(folder, split=None)` gives (a split of whole records, a function from a split to what reads it)."""

    def case(choices):
        folder = tmp_path / str(choices.random())
        folder.mkdir()
        split, reader = make(folder)
        copy, bad = with_odd_ones(choices, folder, split, "odd")
        hold(reader(copy), bad)
        hold(reader(split), damaged(choices, split))

    assert judge(seeds, case)["fine"] == len(seeds)


@pytest.mark.slow
@few_and_many(1, 30)
def test_images(tmp_path, seeds):
    def make(folder):
        split = made_images.write_split(folder, (11, 9, 4))

        def reader(split):
            return ImageRecords(split, made_images.manifest_of(train=split), image_size=16, max_bad_share=1.0)

        return split, reader

    judge_sets(seeds, tmp_path, make)


@pytest.mark.slow
@few_and_many(1, 30)
def test_sequences_for_bert(tmp_path, seeds):
    def make(folder):
        out, _, _ = bert_sets.prepared(folder, bert_sets.plain(8), next_sentence=False)
        manifest = bert_manifest.load(out)
        return manifest.splits["train"], lambda split: BertRecords(split, manifest, max_bad_share=1.0)

    judge_sets(seeds, tmp_path, make)


@pytest.mark.slow
@few_and_many(1, 30)
def test_pairs_of_sentences(tmp_path, seeds):
    learnt = translation_sets.small_vocabulary()

    def make(folder):
        choices = random.Random(7)
        pairs = [[[choices.randrange(4, 300) for _ in range(choices.randint(2, 9))] for _ in "ab"] for _ in range(30)]
        manifest = translation_sets.records(folder, pairs, (14, 16), learnt)
        return manifest.splits["train"], lambda split: TranslationRecords(split, manifest, max_bad_share=1.0)

    judge_sets(seeds, tmp_path, make)


def test_a_third_of_bad_records_is_too_many(tmp_path):
    split = made_images.write_split(tmp_path, (12,))
    records = ImageRecords(split, made_images.manifest_of(train=split), image_size=16)
    damaged(random.Random(0), split)
    weights_of(records)
    with pytest.raises(ValueError, match="4 of the 12 records of train cannot be read"):
        records.bad.check()


@few_and_many(20, 500)
def test_files_that_shrank_or_are_gone(tmp_path, seeds):
    """What happens to a file after its folder was prepared is seen before a run begins."""
    split = made_images.write_split(tmp_path, (5, 5))
    record_manifest.save(str(tmp_path), bert_manifest.KIND, {"train": split}, {})

    def case(choices):
        path = choices.choice(split.files)
        with open(path, "rb") as file:
            content = file.read()
        try:
            with open(path, "wb") as file:
                file.write(mutations.of_bytes(choices, content))
            changed = os.path.getsize(path) != len(content)
            record_manifest.load(str(tmp_path), bert_manifest.KIND, lambda content, splits: splits)
            assert not changed
        finally:
            with open(path, "wb") as file:
                file.write(content)

    assert judge(seeds, case)["refused"] > 0
