import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.data.in_memory.features import Features


def features(labels=None, classes=5, size=23):
    words = np.arange(size * 3, dtype=np.int32).reshape(size, 3)
    arrays = {"input_word_ids": words, "input_mask": np.ones_like(words)}
    return Features(arrays, np.arange(size, dtype=np.int32) % 5 if labels is None else labels, classes, "test")


def context(replicas, workers=1, worker=0):
    return tf.distribute.InputContext(workers, worker, replicas)


def test_training_batches_are_dictionaries_whose_rows_belong_together():
    start = np.arange(23, dtype=np.int32)
    data = features({"start_positions": start, "end_positions": start + 1}, classes=24)
    settings = {"batch_size": 8, "seed": 3, "first_step": 0, "last_step": 5}
    seen = []
    for x, y in data.training_batches(context(2), **settings):
        assert x["input_word_ids"].shape == (4, 3) and x["input_word_ids"].dtype == tf.int32
        np.testing.assert_array_equal(x["input_word_ids"][:, 0] // 3, y["start_positions"])
        np.testing.assert_array_equal(y["end_positions"], y["start_positions"] + 1)
        seen.extend(y["start_positions"].numpy())
    assert sorted(seen[:23]) == list(range(23))
    later = list(data.training_batches(context(2), **{**settings, "first_step": 4}))
    assert later[0][1]["start_positions"].numpy().tolist() == seen[32:36]


@pytest.mark.parametrize("replicas", [1, 2])
def test_evaluation_counts_every_example_once(replicas):
    data = features(np.linspace(0, 5, 23, dtype=np.float32), classes=None)
    seen = []
    for x, y, mask in data.evaluation_batches(context(replicas), batch_size=8):
        assert y.dtype == tf.float32 and len(mask) == len(y) == len(x["input_mask"]) == 8 // replicas
        seen.extend(x["input_word_ids"][:, 0].numpy()[mask.numpy() == 1] // 3)
    assert seen == list(range(23))
    assert (data.evaluation_steps(8), data.tokens_per_example, data.contents) == (3, 3, "23 examples")


@pytest.mark.parametrize("labels, classes", [(np.full(23, -1, np.int32), 5), (np.full(23, np.nan, np.float32), None)])
def test_examples_without_labels_are_evaluated_and_not_trained_on(labels, classes):
    data = features(labels, classes)
    assert data.unlabelled == 23
    assert len(list(data.evaluation_batches(context(1), batch_size=23))) == 1
    with pytest.raises(ValueError, match="test: 23 of 23 examples have no label"):
        data.training_batches(context(1), batch_size=8, seed=0, first_step=0, last_step=1)


@pytest.mark.parametrize(
    "labels, said",
    [
        (np.zeros(22, np.int32), "'labels': 22.* examples; expected one number"),
        (np.full(23, 5), "labels 5 of example 0 is out of range; expected 0 to 4"),
        ({"start_positions": np.full(23, -2)}, "start_positions -2 of example 0"),
    ],
)
def test_bad_features_are_refused(labels, said):
    with pytest.raises(ValueError, match=said):
        features(labels)
    with pytest.raises(ValueError, match="no examples"):
        features(size=0)
