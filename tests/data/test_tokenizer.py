"""The ids and the places of a text's tokens: by hand, and as tf-models-official has them on texts of all of Unicode."""

import random

import numpy as np
import pytest

from tests.helpers.datasets import made_vocabulary, real_data
from tests.helpers.datasets.bert_sets import TOKENS
from tfbigbatch.data import tokenizer as wordpiece
from tfbigbatch.data.tokenizer import Tokenizer, Vocabulary


def names(text, **options):
    vocabulary = Vocabulary(TOKENS)
    return [vocabulary.tokens[number] for number in Tokenizer(vocabulary, **options).ids(text)]


def test_the_longest_pieces_are_taken_from_the_left():
    assert names("The cats, sat!") == ["the", "cat", "##s", ",", "sat", "!"]
    assert names("walking WALKED dogs") == ["walk", "##ing", "walk", "##ed", "dog", "##s"]


def test_a_word_that_pieces_do_not_cover_is_unknown():
    assert names("catz walk7 cat") == ["[UNK]", "[UNK]", "cat"]
    assert names("z" * 401) == ["[UNK]"]


def test_case_and_accents_stay_where_the_vocabulary_is_cased():
    assert names("Cat cät") == ["cat", "cat"]
    assert names("Cat cät cat", lower_case=False) == ["[UNK]", "[UNK]", "cat"]


@pytest.mark.parametrize(
    "tokens, said",
    [
        (["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"], r"5 lines, but no \[MASK\]"),
        (["a", *wordpiece.SPECIAL], r"\[PAD\] is not the first"),
    ],
)
def test_a_vocabulary_without_its_special_tokens_is_refused(tokens, said):
    with pytest.raises(ValueError, match=said):
        Vocabulary(tokens, "vocab.txt")


def test_a_vocabulary_is_a_token_a_line(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("".join(f"{token}\r\n" for token in (*TOKENS, "ä", "ä")).encode())
    vocabulary = Vocabulary.load(str(path))
    assert len(vocabulary) == len(TOKENS) + 2 and vocabulary.tokens[5] == "the"
    # Of a token that is there twice the later id counts, as for tf-models-official.
    assert vocabulary.get("ä") == len(TOKENS) + 1
    assert vocabulary.continues[TOKENS.index("##s")] and not vocabulary.continues[5]
    with pytest.raises(ValueError, match="nowhere.* cannot be read"):
        Vocabulary.load(str(tmp_path / "nowhere"))


WORDS = ["un", "##aff", "##able", "resume", "the", "σας", "中", "##ing"]


@pytest.fixture
def made(tmp_path):
    return made_vocabulary.tokenizer(tmp_path / "vocab.txt", WORDS)


def tokens(tokenizer, text):
    return [tokenizer.vocabulary.tokens[number] for number in tokenizer.ids(text)]


def covered(tokenizer, text):
    ids, offsets = tokenizer.encode(text)
    assert ids.dtype == offsets.dtype == np.int32 and offsets.shape == (len(ids), 2)
    assert ids.tolist() == tokenizer.ids(text), ascii(text)
    return [text[start:end] for start, end in offsets]


def test_a_word_is_its_pieces_one_after_the_other(made):
    assert covered(made, " unaffable\tthe.") == ["un", "aff", "able", "the", "."]
    assert covered(made, "The  unЖ!") == ["The", "unЖ", "!"]
    assert covered(made, " \n\u200b ") == []
    assert covered(made, "[UNK]#a") == ["[", "UN", "K", "]", "#", "a"]


def test_accents_and_case_go_and_the_characters_are_still_known(made):
    for text in ("Résumé", "Re\u0301sume\u0301"):
        assert tokens(made, f"{text}.") == ["resume", "."]
        assert covered(made, f"{text}.") == [text, "."]
    assert tokens(made, "ΣΑΣ") == ["σας"] and covered(made, "ΣΑΣ中ΣΑΣ") == ["ΣΑΣ", "中", "ΣΑΣ"]
    # One character that becomes two in lower case, and one that is left out.
    assert covered(made, "İ a\u200bb中c") == ["İ", "a", "b", "中", "c"]


def theirs(path, lower_case):
    tokenization = pytest.importorskip("official.nlp.tools.tokenization")
    tokenizer = tokenization.FullTokenizer(path, do_lower_case=lower_case)
    return lambda text: tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text))


def strange_texts():
    """Texts of characters from everywhere in Unicode, between letters and spaces."""
    draw = random.Random(0)
    # Without surrogates, which are no text.
    codes = [*range(0xD800), *range(0xE000, 0x30000)]
    latin = [*range(0x20, 0x250), *range(0x300, 0x400), *range(0x1E00, 0x2100)]
    for _ in range(1500):
        common = draw.choices(latin, k=draw.randint(0, 12))
        rare = draw.choices(codes, k=draw.randint(0, 4))
        letters = [chr(code) for code in common + rare] + draw.choices("aeΣİ \t", k=6)
        draw.shuffle(letters)
        yield "".join(letters)
    yield "a" * 400 + " " + "a" * 401
    for code in (*codes[:0x3100], *codes[0x3100::61], 0xE0001, 0x10FFFF):
        yield f"a{chr(code)}b {chr(code)} x{chr(code)}"


@pytest.mark.parametrize("lower_case", [True, False])
def test_strange_texts_have_the_ids_of_tf_models_official(lower_case, tmp_path):
    path = made_vocabulary.write(tmp_path / "vocab.txt", WORDS)
    expected, mine = theirs(path, lower_case), Tokenizer(Vocabulary.load(path), lower_case)
    for text in strange_texts():
        assert mine.ids(text) == expected(text), ascii(text)
        assert all(covered(mine, text))


def test_real_text_has_the_ids_of_tf_models_official():
    path = real_data.path("bert_vocab", "vocab.txt")
    expected, mine = theirs(path, True), Tokenizer(Vocabulary.load(path))
    with open(real_data.path("wikitext-2", "valid.txt"), encoding="utf-8") as file:
        lines = file.readlines()
    for line in lines:
        assert mine.ids(line) == expected(line)
    tokenizers = pytest.importorskip("tokenizers")
    peer = tokenizers.BertWordPieceTokenizer(path)
    for line in lines[:200]:
        assert mine.ids(line) == peer.encode(line, add_special_tokens=False).ids
