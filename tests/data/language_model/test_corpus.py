"""Preparing a corpus: a small one made here, and the real ones where they are at hand."""

import numpy as np
import pytest

from tests.helpers.datasets import real_data
from tfbigbatch.data.language_model import corpus

TEXTS = {"train": "b a a\n\na ü b <unk>\n", "valid": "a new c\n", "test": "b"}


@pytest.fixture
def texts(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for split, text in TEXTS.items():
        (folder / f"my.{split}.txt").write_text(text, encoding="utf-8")
    return folder


def prepared(texts, output):
    return corpus.prepare(corpus.find_texts(str(texts)), str(output))


def test_words_are_numbered_by_frequency_then_alphabet_and_each_line_ends(texts, tmp_path):
    manifest, already = prepared(texts, tmp_path / "out")
    assert not already
    made = corpus.load(str(tmp_path / "out"))
    assert made.vocabulary == ("<eos>", "a", "b", "<unk>", "ü")
    np.testing.assert_array_equal(made.train, [2, 1, 1, 0, 0, 1, 4, 2, 3, 0])
    np.testing.assert_array_equal(made.valid, [1, 3, 3, 0])
    np.testing.assert_array_equal(made.test, [2, 0])
    assert made.train.dtype == np.int32
    assert manifest["tokens"] == {"train": 10, "valid": 4, "test": 2}
    # The <unk> of the training text is a word of its own there, not one that was lost.
    assert manifest["unknown"] == {"train": 0, "valid": 2, "test": 0}
    assert manifest["vocabulary_size"] == 5
    assert made.token_counts.tolist() == [3, 3, 2, 1, 1]
    assert str(tmp_path) not in (tmp_path / "out" / "manifest.json").read_text()


@pytest.mark.parametrize(
    "content, said",
    [
        (b"", "my.valid.txt is empty"),
        (b"fine\nbroken \xff\n", "my.valid.txt, line 2, is not UTF-8"),
    ],
)
def test_a_bad_text_is_named(texts, tmp_path, content, said):
    (texts / "my.valid.txt").write_bytes(content)
    with pytest.raises(ValueError, match=said):
        prepared(texts, tmp_path / "out")
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_missing_and_ambiguous_texts_are_named(texts, tmp_path):
    with pytest.raises(ValueError, match="nowhere: no such file"):
        corpus.prepare(dict.fromkeys(corpus.SPLITS, str(tmp_path / "nowhere")), str(tmp_path / "out"))
    (texts / "other.test.txt").write_text("a")
    with pytest.raises(ValueError, match="one .test..txt.*it has my.test.txt, other.test.txt"):
        corpus.find_texts(str(texts))
    (texts / "my.train.txt").unlink()
    with pytest.raises(ValueError, match="such as ptb.train.txt; it has none"):
        corpus.find_texts(str(texts))


def more_words(path):
    path.write_text(path.read_text() + "more\n")


@pytest.mark.parametrize(
    "name, damage, said",
    [
        ("vocab.txt", more_words, "vocab.txt is not the vocabulary that the text was prepared with"),
        ("manifest.json", lambda path: path.unlink(), "holds no prepared corpus.*prepare-ptb --source="),
    ],
)
def test_a_damaged_folder_is_told_what_to_do(texts, tmp_path, name, damage, said):
    prepared(texts, tmp_path / "out")
    damage(tmp_path / "out" / name)
    with pytest.raises(ValueError, match=said):
        corpus.load(str(tmp_path / "out"))


# Tokens with one <eos> a line, and words: the known numbers of both corpora.
REAL = {
    "ptb": ({"train": 929589, "valid": 73760, "test": 82430}, 10000),
    "wikitext-2": ({"train": 2088628, "valid": 217646, "test": 245569}, 33278),
}


@pytest.mark.parametrize("name", REAL)
def test_the_real_corpora(name, tmp_path):
    folder = real_data.path(name)
    tokens, words = REAL[name]
    manifest, _ = prepared(folder, tmp_path / "out")
    assert (manifest["tokens"], manifest["vocabulary_size"]) == (tokens, words)
    assert set(manifest["unknown"].values()) == {0}
    made = corpus.load(str(tmp_path / "out"))
    with open(corpus.find_texts(folder)["test"], encoding="utf-8") as file:
        words_again = " ".join(made.vocabulary[number] for number in made.test).split("<eos>")
        for again, line in zip(words_again, file):
            assert again.split() == line.split()
