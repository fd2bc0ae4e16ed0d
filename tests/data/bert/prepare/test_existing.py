import os

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.datasets import bert_sets
from tests.helpers.datasets.bert_sets import TOKENS
from tfbigbatch.data.bert import manifest as bert_manifest
from tfbigbatch.data.bert.dataset import BertRecords
from tfbigbatch.data.bert.prepare import existing, prepare
from tfbigbatch.data.bert.prepare.prepare import Options


def example(number, length=16, most=3):
    """A record as others write it, by TensorFlow; its tokens tell its number."""
    ints = {
        "input_ids": [2, 5 + number, 4, 3] + [0] * (length - 4),
        "input_mask": [1] * 4 + [0] * (length - 4),
        "segment_ids": [0] * length,
        "masked_lm_positions": [2] + [0] * (most - 1),
        "masked_lm_ids": [6] + [0] * (most - 1),
        "next_sentence_labels": [number % 2],
    }
    features = {name: tf.train.Feature(int64_list=tf.train.Int64List(value=value)) for name, value in ints.items()}
    weights = [1.0] + [0.0] * (most - 1)
    features["masked_lm_weights"] = tf.train.Feature(float_list=tf.train.FloatList(value=weights))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def write(folder, names, **shapes):
    folder.mkdir(exist_ok=True)
    for file, name in enumerate(names):
        with tf.io.TFRecordWriter(str(folder / name)) as writer:
            for number in range(10 * file, 10 * file + 10):
                writer.write(example(number, **shapes))
    return str(folder)


def indexed(source, out, vocabulary):
    return prepare.prepare(source, str(out), Options(vocab_file=vocabulary))


def test_they_are_indexed_where_they_lie(tmp_path):
    source = write(tmp_path / "set", ["part-00000", "part-00001.tfrecord", "eval.tfrecord"])
    (tmp_path / "set" / "README.md").write_text("no records at all, but text")
    vocabulary = bert_sets.write_vocabulary(tmp_path)
    content, already = indexed(source, tmp_path / "out", vocabulary)
    assert not already and indexed(source, tmp_path / "out", vocabulary)[1]
    manifest = bert_manifest.load(str(tmp_path / "out"))
    assert (manifest.max_seq_length, manifest.max_predictions_per_seq, manifest.next_sentence) == (16, 3, True)
    assert [split.examples for split in manifest.splits.values()] == [20, 10] and manifest.masked
    assert content["counts"] == {"train": {"sequences": 20}, "validation": {"sequences": 10}}
    assert sorted(os.listdir(tmp_path / "out")) == [
        ".progress",
        "manifest.json",
        "train.index.npy",
        "train.token_counts.npy",
        "validation.index.npy",
        "vocab.txt",
    ]
    # The targets of its masks; its ids hold [MASK] in their place.
    assert np.flatnonzero(manifest.token_counts).tolist() == [6] and manifest.token_counts[6] == 20
    data = BertRecords(manifest.splits["train"], manifest)
    batches = data.evaluation_batches(tf.distribute.InputContext(1, 0, 1), batch_size=20)
    features, labels, weights = tf.nest.map_structure(lambda tensor: tensor.numpy(), next(iter(batches)))
    np.testing.assert_array_equal(features["input_word_ids"][:, 1], 5 + np.arange(20))
    np.testing.assert_array_equal(features["input_mask"].sum(axis=1), 4)
    np.testing.assert_array_equal(features["masked_lm_positions"][:, 0], 2)
    np.testing.assert_array_equal(labels["masked_lm"][:, 0], 6)
    np.testing.assert_array_equal(labels["next_sentence"], np.arange(20) % 2)
    np.testing.assert_array_equal(weights["masked_lm"].sum(axis=1), 1)
    # Their masks stay, epoch after epoch.
    batches = data.training_batches(
        tf.distribute.InputContext(1, 0, 1), batch_size=20, seed=0, first_step=0, last_step=2
    )
    for features, _, _ in batches:
        rows = features["input_word_ids"].numpy()
        np.testing.assert_array_equal(np.sort(rows[:, 1]), 5 + np.arange(20))
        assert (rows[:, 2] == 4).all()
    with pytest.raises(ValueError, match="this one has them already"):
        BertRecords(manifest.splits["train"], manifest, whole_word=True)


def test_what_does_not_fit_is_refused(tmp_path):
    vocabulary = bert_sets.write_vocabulary(tmp_path)
    mixed = write(tmp_path / "mixed", ["a", "b"])
    write(tmp_path / "mixed", ["c"], length=24)
    with pytest.raises(ValueError, match="c: the first record is of .*24.*the first of the set of .*16"):
        indexed(mixed, tmp_path / "out", vocabulary)
    with pytest.raises(ValueError, match="give the --vocab_file"):
        prepare.prepare(mixed, str(tmp_path / "out"), Options(train_vocab_size=100))
    other = tmp_path / "other"
    other.mkdir()
    with tf.io.TFRecordWriter(str(other / "a")) as writer:
        writer.write(tf.train.Example().SerializeToString() or b"\n\0")
    with pytest.raises(ValueError, match="has no features; expected .* each of input_ids, input_mask"):
        indexed(str(other), tmp_path / "out", vocabulary)
    with pytest.raises(ValueError, match="for validation .*but none for training"):
        existing.find(write(tmp_path / "only", ["dev-0", "dev-1"]))


def test_text_is_no_record(tmp_path):
    (tmp_path / "text.txt").write_text(" ".join(TOKENS))
    (tmp_path / "empty").write_bytes(b"")
    assert existing.find(str(tmp_path)) == existing.find(str(tmp_path / "nowhere")) == {}
