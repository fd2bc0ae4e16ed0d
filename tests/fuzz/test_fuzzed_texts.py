"""Corpora, parallel texts and vocabularies, damaged by a seeded fuzzer, through the commands that prepare them."""

import gzip
import json
import os
import shutil

import numpy as np
import pytest

from tests.helpers import mutations
from tests.helpers.datasets import bert_sets, translation_sets
from tests.helpers.fuzz_judge import few_and_many, judge
from tfbigbatch.data import tokenizer as wordpieces
from tfbigbatch.data.bert import manifest as bert_manifest
from tfbigbatch.data.bert.prepare import prepare as prepare_bert
from tfbigbatch.data.bert.prepare.options import Options as BertOptions
from tfbigbatch.data.language_model import corpus
from tfbigbatch.data.records import manifest as record_manifest
from tfbigbatch.data.translation import manifest as translation_manifest
from tfbigbatch.data.translation import vocabulary as translation_vocabulary
from tfbigbatch.data.translation.prepare import prepare as prepare_translation
from tfbigbatch.data.translation.prepare.options import Options as TranslationOptions
from tfbigbatch.errors import InputError

SENTENCES = bert_sets.plain(8)
# A corpus in each of the layouts that are understood, and packed.
CORPORA = {
    "text.txt": SENTENCES.encode(),
    "wiki.tokens": " = The cat = \n\n {} \n\n = = Dog = = \n\n the dog ran . \n".format(
        " ".join(SENTENCES.split())
    ).encode(),
    "wiki_00": f'<doc id="1" title="Cat">\nCat\n\n{SENTENCES}\n</doc>\n<doc id="2">\nthe end.\n</doc>\n'.encode(),
    "text.jsonl": "".join(json.dumps({"text": part}) + "\n" for part in SENTENCES.split("\n\n")).encode(),
    "text.txt.gz": gzip.compress(SENTENCES.encode()),
}


def emptied(folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return folder


@few_and_many(40, 1500)
def test_a_corpus_of_words(tmp_path, seeds):
    out = tmp_path / "out"

    def case(choices):
        texts = {}
        for split in corpus.SPLITS:
            texts[split] = str(tmp_path / f"{split}.txt")
            content = b"the cat sat\n\non <unk> the mat\n" * 5
            with open(texts[split], "wb") as file:
                file.write(mutations.of_bytes(choices, content) if choices.random() < 0.5 else content)
        manifest, _ = corpus.prepare(texts, str(emptied(out)))
        found = corpus.load(str(out))
        for split, path in texts.items():
            with open(path, "rb") as file:
                lines = file.read().decode().split("\n")
            lines = lines[:-1] if lines[-1] == "" else lines
            # Every word of every line, and an end for each.
            assert len(getattr(found, split)) == sum(len(line.split()) + 1 for line in lines), split
            assert manifest["tokens"][split] == len(getattr(found, split))

    outcomes = judge(seeds, case)
    assert min(outcomes["fine"], outcomes["refused"]) > 0


@few_and_many(80, 3000)
def test_a_prepared_corpus(tmp_path, seeds):
    texts = {split: str(tmp_path / f"{split}.txt") for split in corpus.SPLITS}
    for path in texts.values():
        with open(path, "w") as file:
            file.write("the cat sat\n" * 5)
    corpus.prepare(texts, str(tmp_path / "out"))
    whole = {name: (tmp_path / "out" / name).read_bytes() for name in os.listdir(tmp_path / "out")}

    def case(choices):
        name = choices.choice(sorted(whole))
        damaged = mutations.of_file(choices, name, whole[name])
        (tmp_path / "out" / name).write_bytes(damaged)
        try:
            corpus.load(str(tmp_path / "out"))
            corpus.prepare(texts, str(tmp_path / "out"))
        finally:
            (tmp_path / "out" / name).write_bytes(whole[name])

    outcomes = judge(seeds, case)
    assert outcomes["refused"] > outcomes["fine"]


@few_and_many(60, 2000)
def test_a_corpus_for_bert(tmp_path, seeds):
    vocabulary = bert_sets.write_vocabulary(tmp_path)
    settings = {"max_seq_length": 32, "max_predictions_per_seq": 5, "next_sentence": False}

    def case(choices):
        source, name = emptied(tmp_path / "source"), choices.choice(sorted(CORPORA))
        (source / name).write_bytes(mutations.of_bytes(choices, CORPORA[name]))
        options = BertOptions(**settings, vocab_file=vocabulary)
        content, _ = prepare_bert.prepare(str(source), str(emptied(tmp_path / "out")), options)
        counts = content["counts"]["train"]
        assert counts["sequences"] == bert_manifest.load(str(tmp_path / "out")).splits["train"].examples
        if name == "text.txt":
            # A document of which bytes were left out is counted; nothing but such bytes is a blank line.
            lines = [
                line for line in (source / name).read_bytes().split(b"\n") if line.decode("utf-8", "ignore").strip()
            ]
            found = sum(of_split["not_utf8"] for of_split in content["counts"].values())
            assert bool(found) == any(line.decode("utf-8", "ignore").encode() != line for line in lines)

    outcomes = judge(seeds, case)
    assert min(outcomes["fine"], outcomes["refused"]) > 0


@few_and_many(5, 107)
def test_a_vocabulary_that_is_learnt_for_bert(tmp_path, seeds):
    settings = {"max_seq_length": 32, "max_predictions_per_seq": 5, "next_sentence": False}

    def case(choices):
        source, name = emptied(tmp_path / "source"), choices.choice(sorted(CORPORA))
        content = CORPORA[name]
        if name == "text.jsonl":
            texts = [json.loads(line) for line in content.decode().splitlines()]
            content = b"\n".join(mutations.of_json(choices, text) for text in texts[:2]) + b"\n" + content
        else:
            content = mutations.of_bytes(choices, content)
        (source / name).write_bytes(content)
        options = BertOptions(**settings, train_vocab_size=200)
        prepare_bert.prepare(str(source), str(emptied(tmp_path / "out")), options)

    judge(seeds, case)


@few_and_many(60, 1000)
def test_vocabularies(tmp_path, seeds):
    path = bert_sets.write_vocabulary(tmp_path)
    with open(path, "rb") as file:
        words = file.read()
    learnt = translation_sets.small_vocabulary().model

    def case(choices):
        with open(path, "wb") as file:
            file.write(mutations.of_bytes(choices, choices.choice((words, learnt))))
        if choices.random() < 0.5:
            wordpieces.Tokenizer(wordpieces.Vocabulary.load(path)).ids("the cat \ud800 sat\0 läuft")
        else:
            vocabulary = translation_vocabulary.Vocabulary.load(path)
            vocabulary.text(vocabulary.ids(["the dog runs", "läuft"])[0])

    judge(seeds, case)


@few_and_many(50, 1500)
def test_parallel_texts(tmp_path, seeds):
    vocabulary = tmp_path / "vocabulary.model"
    vocabulary.write_bytes(translation_sets.small_vocabulary().model)
    pair = translation_sets.pair(tmp_path, "whole", 30)

    def case(choices):
        source = [str(tmp_path / f"train.{side}") for side in range(2)]
        for path, name in zip(source, pair):
            with open(name, "rb") as file:
                content = file.read()
            with open(path, "wb") as file:
                file.write(mutations.of_bytes(choices, content) if choices.random() < 0.6 else content)
        splits = prepare_translation.splits_of(([source[0]], [source[1]]), ([pair[0]], [pair[1]]))
        options = TranslationOptions(vocabulary=str(vocabulary))
        out = str(emptied(tmp_path / "out"))
        content, _ = prepare_translation.prepare(splits, out, options)
        counts = content["counts"]["train"]
        with open(source[0], "rb") as file:
            lines = file.read().removesuffix(b"\n").count(b"\n") + 1
        left_out = sum(counts[reason] for reason in ("empty", "too_long", "extreme_ratio"))
        assert counts["pairs"] + left_out == lines
        assert translation_manifest.load(out).splits["train"].examples == counts["pairs"]

    outcomes = judge(seeds, case)
    assert min(outcomes["fine"], outcomes["refused"]) > 0


@pytest.fixture(scope="module")
def bert_set(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    out, _, _ = bert_sets.prepared(folder, bert_sets.plain(20))
    return folder, out


@few_and_many(50, 4070)
def test_a_prepared_folder(bert_set, seeds):
    """Its manifest, index and vocabulary; the records themselves have a file of tests of their own."""
    folder, out = bert_set
    whole = {}
    for name in ("manifest.json", "vocab.txt", "train.index.npy", os.path.join(".progress", "plan.json")):
        with open(os.path.join(out, name), "rb") as file:
            whole[name] = file.read()
    shards = [name for name in os.listdir(os.path.join(out, ".progress")) if name.startswith("train")]
    for name in shards:
        with open(os.path.join(out, ".progress", name), "rb") as file:
            whole[os.path.join(".progress", name)] = file.read()
    examples = bert_manifest.load(out).splits["train"].examples

    def case(choices):
        name = choices.choice(sorted(whole))
        damaged = mutations.of_file(choices, name, whole[name])
        try:
            with open(os.path.join(out, name), "wb") as file:
                file.write(damaged)
            try:
                split = bert_manifest.load(out).splits["train"]
                assert split.examples == examples and split.offsets.dtype == np.int64
            except InputError:
                # The command that prepared it mends the folder, or says why it does not.
                with open(folder / "text.txt", encoding="utf-8") as file:
                    bert_sets.prepared(folder, file.read())
                assert bert_manifest.load(out).splits["train"].examples == examples
        finally:
            for each, before in whole.items():
                with open(os.path.join(out, each), "wb") as file:
                    file.write(before)

    judge(seeds, case)
    assert record_manifest.read(out, bert_manifest.KIND)["splits"]["train"]["examples"] == examples
