"""Batches of pairs; a record's ids tell its number."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.datasets import translation_sets
from tests.helpers.datasets.compared import on_host, train
from tfbigbatch.data.translation import fake
from tfbigbatch.data.translation import manifest as translation_manifest
from tfbigbatch.data.translation.dataset import TranslationRecords
from tfbigbatch.data.translation.vocabulary import BEGIN, END

pytest.importorskip("sentencepiece")

COUNTS, SIZE, BATCH = (30, 0, 73), 103, 16


def ids(number):
    """The pair of a record: 4 + number, over and over; record 5 has an empty target."""
    source, target = 1 + number * 7 % 15, 1 + number * 13 % 20
    return [4 + number] * source, [4 + number] * (target if number != 5 else 0)


PAIRS = [ids(number) for number in range(SIZE)]


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    return translation_sets.records(tmp_path_factory.mktemp("pairs"), PAIRS, COUNTS)


def records_of(manifest, **options):
    options = {"most_shapes": 3, "block": 5, "threads": 2, **options}
    return TranslationRecords(next(iter(manifest.splits.values())), manifest, **options)


@pytest.fixture(scope="module")
def whole(manifest):
    """The first two epochs' batches on one host."""
    return train(records_of(manifest))


def numbers_in(batches):
    """The numbers of the records in some batches; END - 4 for one that is empty."""
    return np.concatenate([features["source_ids"][:, 0] - 4 for features, _, _ in batches])


def test_each_epoch_visits_each_pair_once_as_it_is(manifest, whole):
    data, batches = records_of(manifest), whole
    assert len(data) == data.examples_in_epoch(7) == SIZE
    np.testing.assert_allclose(data.tokens_per_example, np.mean([len(target) + 1 for _, target in PAIRS]))
    numbers = numbers_in(batches)
    for epoch in range(2):
        assert sorted(numbers[epoch * SIZE : (epoch + 1) * SIZE]) == list(range(SIZE))
    features, labels, weights = batches[0]
    assert {value.dtype for value in (*features.values(), labels)} == {np.dtype(np.int32)}
    assert weights.dtype == np.float32 and labels.shape == weights.shape == features["target_ids"].shape == (BATCH, 21)
    assert features["source_ids"].shape == (BATCH, 16)
    for (features, labels, weights), chosen in zip(batches, numbers.reshape(-1, BATCH)):
        for row, number in enumerate(chosen):
            source, target = PAIRS[number]
            assert features["source_lengths"][row] == len(source) + 1 and weights[row].sum() == len(target) + 1
            np.testing.assert_array_equal(np.trim_zeros(features["source_ids"][row]), [*source, END])
            np.testing.assert_array_equal(labels[row][weights[row] == 1], [*target, END])
            assert not labels[row][weights[row] == 0].any()
            np.testing.assert_array_equal(features["target_ids"][row][: len(target) + 1], [BEGIN, *target])
            assert not features["target_ids"][row][len(target) + 1 :].any()


def test_a_batch_has_one_bucket_that_holds_it(manifest, whole):
    shapes = records_of(manifest).shapes
    found = np.stack([features["bucket"] for features, _, _ in whole])
    assert (found == found[:, :1]).all() and len(set(found[:, 0])) > 1
    for step, numbers in enumerate(numbers_in(whole).reshape(14, BATCH)):
        longest = np.max([[len(side) + 1 for side in PAIRS[number]] for number in numbers], axis=0)
        fitting = [bucket for bucket, shape in enumerate(shapes) if (longest <= shape).all()]
        assert found[step, 0] == fitting[0]


def test_evaluation_by_length_sees_the_same_pairs_the_shortest_first(manifest):
    data = records_of(manifest)
    batches = on_host(data.evaluation_batches(tf.distribute.InputContext(1, 0, 1), batch_size=20))
    numbers = numbers_in(batches)[:SIZE]
    np.testing.assert_array_equal(numbers, data.evaluation_order)
    np.testing.assert_array_equal(np.sort(numbers), range(SIZE))
    lengths = np.concatenate([features["source_lengths"] for features, _, _ in batches])
    assert (np.diff(lengths[:SIZE]) >= 0).all() and (lengths[SIZE:] == 1).all()


def test_shapes_are_chosen(manifest):
    data = records_of(manifest)
    assert data.shapes[-1] == (16, 21) and len(data.shapes) == 3
    assert "103 pairs of sentences in 3 files" in data.contents and "x 21" in data.contents
    with pytest.raises(ValueError, match="block=0"):
        records_of(manifest, block=0)


def test_ids_and_lengths_of_another_set_are_refused(manifest):
    small = dataclasses.replace(manifest, vocabulary=_Small())
    short = dataclasses.replace(manifest, lengths={"train": np.minimum(manifest.lengths["train"], 3)})
    for records in (records_of(small), records_of(short)):
        _, _, weights = train(records, 0, 1)[0]
        bad = (weights == 0).all(axis=1)
        assert bad.any() and records.bad.count == bad.sum()
        with pytest.raises(ValueError, match="cannot be read or decoded"):
            records.bad.check()


class _Small:
    def __len__(self):
        return 50


def test_made_up_data_has_the_shapes_of_real_data(tmp_path):
    manifest = fake.pairs(str(tmp_path))
    translation_manifest.save(str(tmp_path), manifest, {})
    manifest = translation_manifest.load(str(tmp_path))
    assert [split.examples for split in manifest.splits.values()] == [20, 64, 20]
    data = TranslationRecords(manifest.splits["test"], manifest)
    [(features, labels, _)] = on_host(data.evaluation_batches(tf.distribute.InputContext(1, 0, 1), batch_size=20))
    sources, references = (np.array(lines)[data.evaluation_order].tolist() for lines in manifest.texts("test"))
    assert [manifest.vocabulary.text(row) for row in features["source_ids"]] == sources
    assert [manifest.vocabulary.text(row) for row in labels] == references
    assert [line.split()[::-1] for line in sources] == [line.split() for line in references]
