"""Which tokens can be masked, counted in prepared folders of each kind."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.datasets import bert_sets
from tfbigbatch.data.bert import manifest as bert_manifest
from tfbigbatch.data.bert import target_counts
from tfbigbatch.data.bert.dataset import BertRecords


def batch_of(manifest, **options):
    data = BertRecords(manifest.splits["train"], manifest, **options)
    batches = data.evaluation_batches(tf.distribute.InputContext(1, 0, 1), batch_size=len(data))
    return next(iter(batches))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        pytest.param({"packed": True, "next_sentence": False}, marks=pytest.mark.slow),
        pytest.param({"masking": "static_token"}, marks=pytest.mark.slow),
    ],
)
def test_they_are_the_targets_of_the_dataset(tmp_path, settings):
    folder, *_ = bert_sets.prepared(tmp_path, bert_sets.plain(12), max_predictions_per_seq=32, **settings)
    manifest = bert_manifest.load(folder)
    # Every token that can be masked is.
    options = {"masked_share": 0.999} if manifest.dynamic else {}
    _, labels, weights = batch_of(manifest, **options)
    targets = labels["masked_lm"].numpy()[weights["masked_lm"].numpy() > 0]
    expected = np.bincount(targets, minlength=len(manifest.vocabulary))
    assert expected.sum() > 100
    np.testing.assert_array_equal(manifest.token_counts, expected)
    assert "when the data was prepared" in target_counts.of(manifest).source


def test_a_folder_of_earlier_versions_is_counted_now(tmp_path):
    folder, *_ = bert_sets.prepared(tmp_path, bert_sets.plain(12))
    manifest = bert_manifest.load(folder)
    before = dataclasses.replace(manifest, token_counts=None)
    bert_manifest.save(folder, before)
    assert bert_manifest.load(folder).token_counts is None
    found = target_counts.of(bert_manifest.load(folder))
    np.testing.assert_array_equal(found.counts, manifest.token_counts)
    assert "counted now in its records: the folder was prepared without counts" in found.source
    assert 0 < target_counts.of(before, most_records=3).counts.sum() < found.counts.sum()
