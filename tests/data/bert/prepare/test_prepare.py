"""From text to a prepared folder, and what its records hold."""

import collections
import os

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.datasets import bert_sets, real_data
from tests.helpers.datasets.bert_sets import TOKENS, plain, prepared
from tests.helpers.datasets.compared import digests
from tfbigbatch.data import tokenizer as wordpiece
from tfbigbatch.data.bert import manifest as bert_manifest
from tfbigbatch.data.bert.dataset import BertRecords
from tfbigbatch.data.bert.prepare import corpus, prepare
from tfbigbatch.data.bert.prepare.prepare import Options
from tfbigbatch.data.records import tfrecord

TEXT = plain(60)
SHORT = {"max_seq_length": 32, "max_predictions_per_seq": 5}


def examples(folder, split="train"):
    """The features of each record, by TensorFlow: dictionaries from names to lists or bytes."""
    for path in bert_manifest.load(folder).splits[split].files:
        for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
            found = {}
            for name, feature in tf.train.Example.FromString(record).features.feature.items():
                values = getattr(feature, feature.WhichOneof("kind")).value
                found[name] = values[0] if isinstance(values[0], bytes) else list(values)
            yield found


def segments(example):
    """(tokens of A, tokens of B) of a dynamic record."""
    tokens = [TOKENS[number] for number in np.frombuffer(example["ids"], "<u2")]
    first = example["first_length"][0]
    assert tokens[0] == "[CLS]" and tokens[first - 1] == tokens[-1] == "[SEP]" and len(tokens) <= 32
    a, b = tokens[1 : first - 1], tokens[first:-1]
    assert not {"[CLS]", "[SEP]", "[PAD]"} & {*a, *b}
    return a, b


@pytest.fixture
def small_shards(monkeypatch):
    """Four shards of 60 documents."""
    monkeypatch.setattr(prepare, "_DOCUMENTS_EACH", 15)


def test_records_hold_the_text_as_it_is(tmp_path, small_shards):
    folder, content, already = prepared(tmp_path, TEXT, validation_fraction=0.1)
    assert not already
    manifest = bert_manifest.load(folder)
    assert (manifest.masked, manifest.max_seq_length, manifest.next_sentence) == (False, 32, True)
    assert len(manifest.splits["train"].files) == 3
    assert manifest.vocabulary.tokens == TOKENS
    train, validation = content["counts"]["train"], content["counts"]["validation"]
    assert (train["documents"], validation["documents"]) == (54, 6)
    found = list(examples(folder))
    assert len(found) == manifest.splits["train"].examples == train["sequences"]
    assert sum(example["next_sentence_labels"][0] for example in found) == train["random_next"]
    assert 0.4 < train["random_next"] / train["sequences"] < 0.7
    tokenizer = wordpiece.Tokenizer(manifest.vocabulary)
    texts = [" ".join(TOKENS[i] for line in bert_sets.document(n) for i in tokenizer.ids(line)) for n in range(60)]
    assert train["tokens"] + validation["tokens"] == sum(len(text.split()) for text in texts)
    size = 0
    for example in found:
        a, b = segments(example)
        homes = [{n for n, text in enumerate(texts) if " ".join(part) in text} for part in (a, b)]
        assert homes[0] and homes[1]
        if not example["next_sentence_labels"][0]:
            assert homes[0] & homes[1]
        size += len(a) + len(b) + 3
    np.testing.assert_allclose(train["padding"], 1 - size / (32 * len(found)))
    for split in manifest.splits.values():
        offsets = np.concatenate([tfrecord.offsets(path) for path in split.files])
        np.testing.assert_array_equal(split.offsets, offsets)


def test_runs_hold_all_text_once(tmp_path):
    folder, content, _ = prepared(tmp_path, TEXT, next_sentence=False)
    assert not bert_manifest.load(folder).next_sentence
    counted, size = collections.Counter(), 0
    for example in examples(folder):
        a, b = segments(example)
        assert not b and "next_sentence_labels" not in example
        size += len(a)
        counted[len(a)] += 1
    assert size == content["counts"]["train"]["tokens"]
    assert max(counted) == 30 and counted[30] > 0.5 * counted.total()


def test_the_files_are_the_same_for_any_number_of_processes_and_another_seed_gives_others(tmp_path, small_shards):
    one, *_ = prepared(tmp_path, TEXT, name="one", validation_fraction=0.5)
    two, *_ = prepared(tmp_path, TEXT, name="two", processes=2, validation_fraction=0.5)
    other, *_ = prepared(tmp_path, TEXT, name="other", seed=1, validation_fraction=0.5)
    assert digests(one) == digests(two) and len(digests(one)) == 9
    assert digests(other)["train-00001-of-00002"] != digests(one)["train-00001-of-00002"]


def test_a_single_document_has_no_random_segments(tmp_path):
    text = "\n".join(bert_sets.document(1, 30))
    folder, content, _ = prepared(tmp_path, text, validation_fraction=0.5)
    assert content["counts"]["train"]["random_next"] == 0 and list(content["counts"]) == ["train"]
    with pytest.raises(ValueError, match="gave no sequence to train on.*--nonext_sentence"):
        prepared(tmp_path, "the cat sat.\n", name="one")
    with pytest.raises(ValueError, match="has no text"):
        prepared(tmp_path, " \n\n", name="none")
    with pytest.raises(ValueError, match="lies in --source="):
        prepare.prepare(str(tmp_path), str(tmp_path / "in"), Options(vocab_file="x"))


def test_options_are_checked():
    with pytest.raises(ValueError, match="--validation_fraction=1.0: expected 0 to less than 1"):
        Options(vocab_file="x", validation_fraction=1.0)


def test_a_vocabulary_is_learnt_from_the_text(tmp_path):
    pytest.importorskip("tokenizers")
    source = tmp_path / "text.txt"
    source.write_text(TEXT, encoding="utf-8")
    options = Options(**SHORT, train_vocab_size=120, validation_fraction=0.1)
    prepare.prepare(str(source), str(tmp_path / "out"), options)
    vocabulary = bert_manifest.load(str(tmp_path / "out")).vocabulary
    assert vocabulary.tokens[:5] == wordpiece.SPECIAL and 40 < len(vocabulary) <= 120
    assert {"cat", "the"} <= set(vocabulary.tokens)
    prepare.prepare(str(source), str(tmp_path / "again"), options)
    assert digests(str(tmp_path / "again")) == digests(str(tmp_path / "out"))


def test_real_wikitext_has_its_articles(tmp_path):
    path = real_data.path("wikitext-2", "valid.txt")
    name, positions = corpus.scan(path, lambda: None)
    assert name == "wikitext" and len(positions) == 60
    assert positions[:, 1].sum() > 0.999 * os.path.getsize(path)


@pytest.mark.parametrize("documents, held_out", [(1, 0), (2, 1), (9, 1), (60, 6), (100, 10), (900, 10), (5000, 50)])
def test_a_hundredth_is_held_out_by_default_ten_at_least_and_a_tenth_at_most(documents, held_out):
    assert prepare.held_out(documents, Options(vocab_file="x")).sum() == held_out


def test_the_counts_of_tokens_are_those_of_the_datasets_targets(tmp_path):
    folder, *_ = prepared(tmp_path, plain(12), max_predictions_per_seq=32)
    manifest = bert_manifest.load(folder)
    # Every token that can be masked is.
    data = BertRecords(manifest.splits["train"], manifest, masked_fraction=0.999)
    batches = data.evaluation_batches(tf.distribute.InputContext(1, 0, 1), batch_size=len(data))
    _, labels, weights = next(iter(batches))
    targets = labels["masked_lm"].numpy()[weights["masked_lm"].numpy() > 0]
    assert len(targets) > 100
    np.testing.assert_array_equal(manifest.token_counts, np.bincount(targets, minlength=len(manifest.vocabulary)))
