"""Packed sequences: nothing is lost, less is padding, and a model that keeps the texts apart has the same loss."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.datasets import bert_sets
from tests.helpers.datasets.bert_sets import TOKENS, prepared
from tfbigbatch.data.bert import manifest as bert_manifest
from tfbigbatch.data.bert.dataset import BertRecords
from tfbigbatch.data.bert.prepare import packing
from tfbigbatch.data.bert.prepare.settings import Settings

LENGTH, CLS, SEP = 32, 2, 3
TEXT = "\n\n".join("\n".join(bert_sets.document(number, 1 + number % 3)) for number in range(60)) + "\n"


def batch_of(folder, **options):
    manifest = bert_manifest.load(folder)
    data = BertRecords(manifest.splits["train"], manifest, **options)
    batches = data.evaluation_batches(tf.distribute.InputContext(1, 0, 1), batch_size=len(data))
    return tf.nest.map_structure(lambda tensor: tensor.numpy(), next(iter(batches)))


def whole(features, labels, weights):
    """The ids without masks."""
    ids = features["input_word_ids"].copy()
    rows, slots = np.nonzero(weights["masked_lm"])
    ids[rows, features["masked_lm_positions"][rows, slots]] = labels["masked_lm"][rows, slots]
    return ids


def test_each_sequence_is_in_one_row():
    random = np.random.default_rng(0)
    sequences = [([number] * size, 0, 0) for number, size in enumerate(random.integers(3, 129, 500))]
    rows = packing.packed(sequences, 128)
    assert sorted(sequence[0][0] for row in rows for sequence in row) == list(range(500))
    sizes = [sum(len(ids) for ids, _, _ in row) for row in rows]
    assert max(sizes) <= 128 and np.mean(sizes) > 0.9 * 128
    assert packing.packed([], 128) == []


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    return prepared(tmp_path_factory.mktemp("packed"), TEXT, next_sentence=False, packed=True)


@pytest.mark.slow
def test_nothing_is_lost_and_the_texts_can_be_told_apart(packed, tmp_path):
    folder, content, _ = packed
    alone, unpacked, _ = prepared(tmp_path, TEXT, next_sentence=False)
    counts, others = content["counts"]["train"], unpacked["counts"]["train"]
    assert counts["texts"] == others["texts"] == others["sequences"] > counts["sequences"]
    assert counts["padding_share"] < 0.6 * others["padding_share"]
    features, labels, weights = batch_of(folder)
    ids, documents, positions = whole(features, labels, weights), features["document_ids"], features["position_ids"]
    np.testing.assert_array_equal(documents > 0, features["input_mask"] == 1)
    np.testing.assert_allclose(1 - (documents > 0).mean(), counts["padding_share"])
    found = []
    for row in range(len(ids)):
        for number in range(1, documents[row].max() + 1):
            places = np.flatnonzero(documents[row] == number)
            np.testing.assert_array_equal(positions[row, places], np.arange(len(places)))
            assert ids[row, places[0]] == CLS and ids[row, places[-1]] == SEP
            found.append(tuple(ids[row, places]))
    theirs = batch_of(alone)
    expected = [tuple(row[row > 0]) for row in whole(*theirs)]
    assert sorted(found) == sorted(expected)
    hidden = np.take_along_axis(ids, features["masked_lm_positions"], axis=1)[weights["masked_lm"] == 1]
    assert not {CLS, SEP, 0} & set(hidden)
    maskable = ((ids != CLS) & (ids != SEP) & (documents > 0)).sum(axis=1)
    np.testing.assert_array_equal(weights["masked_lm"].sum(axis=1), np.clip(np.rint(0.15 * maskable), 1, 5))
    assert (features["input_type_ids"] == 0).all() and set(labels) == {"masked_lm"}


def losses(ids, positions, apart, targets, places):
    """The cross-entropies of a random layer's predictions at `places` of one row; attention within equal `apart`."""
    random = np.random.default_rng(0)
    tokens, where, query, key = (random.normal(size=(size, 8)) for size in (len(TOKENS), LENGTH, 8, 8))
    hidden = tokens[ids] + where[positions]
    scores = np.where(apart[:, None] == apart[None, :], (hidden @ query) @ (hidden @ key).T / 8, -1e9)
    attention = np.exp(scores - scores.max(axis=1, keepdims=True))
    logits = (hidden + attention / attention.sum(axis=1, keepdims=True) @ hidden) @ tokens.T
    logits -= logits.max(axis=1, keepdims=True)
    return (np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(ids)), targets])[places]


@pytest.mark.slow
def test_the_loss_is_that_of_the_same_texts_unpacked(packed):
    features, labels, weights = batch_of(packed[0], whole_word=True)
    ids, documents = features["input_word_ids"], features["document_ids"]
    targets, texts = whole(features, labels, weights), 0
    for row in range(len(ids)):
        masked = features["masked_lm_positions"][row][weights["masked_lm"][row] == 1]
        together = losses(ids[row], features["position_ids"][row], documents[row], targets[row], masked)
        alone = []
        for number in range(1, documents[row].max() + 1):
            places = np.flatnonzero(documents[row] == number)
            size = len(places)
            own = np.isin(places, masked)
            # By itself: positions from 0, padding masked out.
            row_ids, row_targets = np.zeros((2, LENGTH), int)
            row_ids[:size], row_targets[:size] = ids[row, places], targets[row, places]
            there = (np.arange(LENGTH) < size).astype(int)
            alone.append(losses(row_ids, np.arange(LENGTH), there, row_targets, np.flatnonzero(own)))
            texts += 1
        np.testing.assert_allclose(together, np.concatenate(alone), rtol=1e-10)
    assert texts > len(ids)


def test_pairs_and_written_masks_are_not_packed():
    for fields in ({}, {"next_sentence": False, "masking": "static_token"}):
        with pytest.raises(ValueError, match="--packed is for runs of text.*--nonext_sentence --masking=dynamic"):
            Settings(packed=True, **fields)
