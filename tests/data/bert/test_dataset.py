"""Batches of pretraining data; the records' ids tell their numbers."""

import dataclasses

import numpy as np
import pytest

from tests.helpers.datasets import made_records
from tests.helpers.datasets.compared import train
from tfbigbatch.data import tokenizer
from tfbigbatch.data.bert import manifest as bert_manifest
from tfbigbatch.data.bert.dataset import BertRecords
from tfbigbatch.data.bert.prepare import sequences

COUNTS = (30, 7, 40, 26)
SIZE, BATCH, LENGTH, MOST = sum(COUNTS), 16, 24, 4
# A piece that goes on with a word for each two that begin one.
VOCABULARY = tokenizer.Vocabulary(
    [*tokenizer.SPECIAL, *(f"{'##' if number % 3 == 2 else ''}w{number}" for number in range(3 * SIZE))]
)
PAD, _, CLS, SEP, MASK = range(5)


def sequence(number):
    """The pair of a record's number: the words 3 * number and 3 * number + 1, over and over."""
    first, second = 3 + number % 5, 2 + number % 9
    word = 5 + 3 * number
    a, b = [[word, word + 1, word + 2][place % 3] for place in range(first)], [word, word + 2] * second
    return [CLS, *a, SEP, *b[:second], SEP], first + 2, number % 2


def write(folder, next_sentence=True):
    found = [sequences.serialized(sequence(number), next_sentence, np.dtype("<u2")) for number in range(SIZE)]
    split = made_records.write(folder, found, COUNTS)
    return bert_manifest.Manifest(LENGTH, MOST, next_sentence, False, VOCABULARY, {"train": split})


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    return write(tmp_path_factory.mktemp("bert"))


def records_of(manifest, **options):
    return BertRecords(manifest.splits["train"], manifest, **{"shuffle_window": 50, "threads": 2, **options})


@pytest.fixture(scope="module")
def whole(manifest):
    """The first two epochs' batches on one host."""
    return train(records_of(manifest))


def together(batches, part, name):
    return np.concatenate([batch[part][name] for batch in batches])


def unmasked(batches):
    """The ids with what was masked put back."""
    ids, positions = together(batches, 0, "input_word_ids").copy(), together(batches, 0, "masked_lm_positions")
    labels, weights = together(batches, 1, "masked_lm"), together(batches, 2, "masked_lm")
    rows, slots = np.nonzero(weights)
    ids[rows, positions[rows, slots]] = labels[rows, slots]
    return ids


def numbers_in(batches):
    """The numbers of the records in some batches; -1 for one that is empty."""
    return np.where(unmasked(batches)[:, 1] > 0, (unmasked(batches)[:, 1] - 5) // 3, -1)


def test_each_epoch_visits_each_sequence_once_as_it_is(manifest, whole):
    data, batches = records_of(manifest), whole
    assert len(data) == data.examples_in_epoch(7) == SIZE and data.tokens_per_example == LENGTH
    assert "103 pairs of segments of 24 tokens in 4 files" in data.contents
    numbers = numbers_in(batches)
    for epoch in range(2):
        assert sorted(numbers[epoch * SIZE : (epoch + 1) * SIZE]) == list(range(SIZE))
    expected = [sequence(number) for number in numbers]
    sizes = np.array([len(tokens) for tokens, _, _ in expected])
    firsts = np.array([first for _, first, _ in expected])
    ids = np.zeros([len(numbers), LENGTH], int)
    ids[np.arange(LENGTH) < sizes[:, None]] = [token for tokens, _, _ in expected for token in tokens]
    np.testing.assert_array_equal(unmasked(batches), ids)
    places = np.arange(LENGTH)
    np.testing.assert_array_equal(together(batches, 0, "input_mask"), places < sizes[:, None])
    types = (places >= firsts[:, None]) & (places < sizes[:, None])
    np.testing.assert_array_equal(together(batches, 0, "input_type_ids"), types)
    np.testing.assert_array_equal(together(batches, 1, "next_sentence"), numbers % 2)
    assert (together(batches, 2, "next_sentence") == 1).all()
    aims = np.clip(np.rint(0.15 * (sizes - 3)), 1, MOST)
    np.testing.assert_array_equal(together(batches, 2, "masked_lm").sum(axis=1), aims)
    features, labels, weights = batches[0]
    assert {value.dtype for value in (*features.values(), *labels.values())} == {np.dtype(np.int32)}
    assert {value.dtype for value in weights.values()} == {np.dtype(np.float32)}
    assert features["input_word_ids"].shape == (BATCH, LENGTH) and labels["masked_lm"].shape == (BATCH, MOST)


def test_masks_are_made_anew_in_each_epoch_whatever_the_hosts(manifest, whole):
    batches = whole
    numbers, ids = numbers_in(batches), together(batches, 0, "input_word_ids")
    first, second = (ids[epoch * SIZE : (epoch + 1) * SIZE] for epoch in range(2))
    order = [np.argsort(numbers[epoch * SIZE : (epoch + 1) * SIZE]) for epoch in range(2)]
    assert (first[order[0]] != second[order[1]]).any(axis=1).mean() > 0.7
    parts = [train(records_of(manifest), 0, 6, hosts=2, host=host, replicas=4) for host in range(2)]
    assert all(len(part) == 12 for part in parts)
    shared = np.concatenate([together(part, 0, "input_word_ids") for part in parts])
    theirs = np.concatenate([numbers_in(part) for part in parts])
    # The same record has the same masks, though the hosts shuffle their shares apart.
    mine = {number: row.tolist() for number, row in zip(numbers[:SIZE], ids[:SIZE])}
    assert len(set(theirs)) == 96 and all(mine[number] == row.tolist() for number, row in zip(theirs, shared))


def test_a_set_without_pairs_has_no_second_label(tmp_path):
    features, labels, weights = train(records_of(write(tmp_path, next_sentence=False)), 0, 1)[0]
    assert set(labels) == set(weights) == {"masked_lm"} and len(features) == 4


@pytest.mark.slow
def test_ids_outside_of_the_vocabulary_are_refused(manifest):
    small = tokenizer.Vocabulary(VOCABULARY.tokens[:50])
    records = records_of(dataclasses.replace(manifest, vocabulary=small))
    _, _, weights = train(records, 0, 1)[0]
    bad = (weights["masked_lm"] == 0).all(axis=1)
    assert bad.any() and records.bad.count == bad.sum()
    with pytest.raises(ValueError, match="cannot be read or decoded"):
        records.bad.check()
