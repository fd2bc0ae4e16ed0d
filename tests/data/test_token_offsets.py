"""Tokens and their characters: by hand, and on texts from everywhere in Unicode."""

import os
import random

import numpy as np
import pytest

from tests.helpers.datasets import made_vocabulary
from tfbigbatch.data import token_offsets
from tfbigbatch.data.tokenizer import Tokenizer, Vocabulary

# A folder of data sets, each in a folder of its name; tests that need one skip where it is absent.
REAL = os.path.join(os.environ.get("TFBIGBATCH_DATA", "data"), "bert_vocab", "vocab.txt")
WORDS = ["un", "##aff", "##able", "resume", "the", "σας", "中", "##ing"]


@pytest.fixture
def made(tmp_path):
    return made_vocabulary.tokenizer(tmp_path / "vocab.txt", WORDS)


def tokens(tokenizer, text):
    return [tokenizer.vocabulary.tokens[number] for number in tokenizer.ids(text)]


def covered(tokenizer, text):
    (found,) = token_offsets.encode(tokenizer, [text])
    assert found.ids.dtype == found.offsets.dtype == np.int32 and found.offsets.shape == (len(found), 2)
    assert found.ids.tolist() == tokenizer.ids(text), ascii(text)
    return [text[start:end] for start, end in found.offsets]


def test_a_word_is_its_pieces_one_after_the_other(made):
    assert covered(made, " unaffable\tthe.") == ["un", "aff", "able", "the", "."]
    assert covered(made, "The  unЖ!") == ["The", "unЖ", "!"]
    assert covered(made, "[UNK]#a") == ["[", "UN", "K", "]", "#", "a"]


def test_accents_and_case_go_and_the_characters_are_still_known(made):
    for text in ("Résumé", "Re\u0301sume\u0301"):
        assert tokens(made, f"{text}.") == ["resume", "."]
        assert covered(made, f"{text}.") == [text, "."]
    assert tokens(made, "ΣΑΣ") == ["σας"] and covered(made, "ΣΑΣ中ΣΑΣ") == ["ΣΑΣ", "中", "ΣΑΣ"]
    # One character that becomes two in lower case, and one that is left out.
    assert covered(made, "İ a\u200bb中c") == ["İ", "a", "b", "中", "c"]


def test_a_cased_vocabulary_keeps_case_and_accents(tmp_path):
    cased = Tokenizer(Vocabulary.load(made_vocabulary.write(tmp_path / "vocab.txt", ["Résumé"])), lower_case=False)
    assert tokens(cased, "Résumé resume")[0] == "Résumé"
    assert covered(cased, "Résumé,a") == ["Résumé", ",", "a"]


def test_nothing_gives_nothing(made):
    (found,) = token_offsets.encode(made, [" \n\u200b "])
    assert len(found) == 0 and found.offsets.shape == (0, 2)


def strange_texts():
    """Texts of characters from everywhere in Unicode, between letters and spaces."""
    draw = random.Random(0)
    # Without surrogates, which are no text.
    codes = [*range(0xD800), *range(0xE000, 0x30000)]
    latin = [*range(0x20, 0x250), *range(0x300, 0x400), *range(0x1E00, 0x2100)]
    for _ in range(3000):
        common = draw.choices(latin, k=draw.randint(0, 12))
        rare = draw.choices(codes, k=draw.randint(0, 4))
        letters = [chr(code) for code in common + rare] + draw.choices("aeΣİ \t", k=6)
        draw.shuffle(letters)
        yield "".join(letters)
    yield "a" * 400 + " " + "a" * 401


@pytest.mark.parametrize("lower_case", [True, False])
def test_strange_texts_have_the_tokenizers_ids_and_those_of_tf_models_official(lower_case):
    peer = pytest.importorskip("official.nlp.tools.tokenization", reason="tf-models-official is not installed")
    if not os.path.exists(REAL):
        pytest.skip("BERT's vocabulary is not at hand")
    theirs = peer.FullTokenizer(REAL, do_lower_case=lower_case)
    ours = Tokenizer(Vocabulary.load(REAL), lower_case)
    for text in strange_texts():
        assert ours.ids(text) == theirs.convert_tokens_to_ids(theirs.tokenize(text)), ascii(text)
        assert all(covered(ours, text))
