"""Packed sequences: nothing is lost, less is padding, and a model can keep the texts apart."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.datasets import bert_sets
from tests.helpers.datasets.bert_sets import prepared
from tfbigbatch.data.bert import manifest as bert_manifest
from tfbigbatch.data.bert.dataset import BertRecords

CLS, SEP = 2, 3
TEXT = "\n\n".join("\n".join(bert_sets.document(number, 1 + number % 3)) for number in range(60)) + "\n"


def batch_of(folder):
    manifest = bert_manifest.load(folder)
    data = BertRecords(manifest.splits["train"], manifest)
    batches = data.evaluation_batches(tf.distribute.InputContext(1, 0, 1), batch_size=len(data))
    return tf.nest.map_structure(lambda tensor: tensor.numpy(), next(iter(batches)))


def whole(features, labels, weights):
    """The ids without masks."""
    ids = features["input_word_ids"].copy()
    rows, slots = np.nonzero(weights["masked_lm"])
    ids[rows, features["masked_lm_positions"][rows, slots]] = labels["masked_lm"][rows, slots]
    return ids


@pytest.mark.slow
def test_nothing_is_lost_and_the_texts_can_be_told_apart(tmp_path):
    folder, content, _ = prepared(tmp_path, TEXT, name="packed", next_sentence=False, packed=True)
    alone, unpacked, _ = prepared(tmp_path, TEXT, next_sentence=False)
    counts, others = content["counts"]["train"], unpacked["counts"]["train"]
    assert counts["texts"] == others["texts"] == others["sequences"] > counts["sequences"]
    assert counts["padding"] < 0.6 * others["padding"]
    features, labels, weights = batch_of(folder)
    ids, documents, positions = whole(features, labels, weights), features["document_ids"], features["position_ids"]
    np.testing.assert_array_equal(documents > 0, features["input_mask"] == 1)
    np.testing.assert_allclose(1 - (documents > 0).mean(), counts["padding"])
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
