"""The tokenizer: by hand, and beside tf-models-official's."""

import os
import random

import numpy as np
import pytest

from tests.data import made_vocabulary
from tfbigbatch.data.wordpiece import WordPiece

# A folder of data sets, each in a folder of its name; tests that need one skip where it is absent.
DATA = os.environ.get("TFBIGBATCH_DATA", "data")
REAL = os.path.join(DATA, "bert_vocab", "vocab.txt")
WORDS = ["un", "##aff", "##able", "resume", "the", "σας", "中", "##ing"]


@pytest.fixture
def made(tmp_path):
    return WordPiece(made_vocabulary.write(tmp_path / "vocab.txt", WORDS))


def tokens(tokenizer, text):
    return [tokenizer.tokens[number] for number in tokenizer.ids(text)]


def covered(tokenizer, text):
    (pieces,) = tokenizer.encode([text])
    assert pieces.ids.dtype == pieces.offsets.dtype == np.int32 and pieces.offsets.shape == (len(pieces), 2)
    assert pieces.ids.tolist() == tokenizer.ids(text)
    return [text[start:end] for start, end in pieces.offsets]


def test_words_are_the_longest_pieces_from_the_left(made):
    assert tokens(made, "unaffable") == ["un", "##aff", "##able"]
    assert tokens(made, "The unЖ!") == ["the", "[UNK]", "!"]
    assert covered(made, "The  unЖ!") == ["The", "unЖ", "!"]


def test_the_special_tokens_are_found_by_name_and_text_is_never_one(made):
    assert (made.pad, made.unknown, made.cls, made.sep, made.mask) == (0, 1, 2, 3, 4)
    assert tokens(made, "[SEP]") == ["[", "s", "##e", "##p", "]"]


def test_accents_and_case_go_and_the_characters_are_still_known(made):
    for text in ("Résumé", "Re\u0301sume\u0301"):
        assert tokens(made, f"{text}.") == ["resume", "."]
        assert covered(made, f"{text}.") == [text, "."]
    assert tokens(made, "ΣΑΣ") == ["σας"]
    # One character that becomes two in lower case, and one that is left out.
    assert covered(made, "İ a\u200bb中c") == ["İ", "a", "b", "中", "c"]


def test_a_cased_vocabulary_keeps_case_and_accents(tmp_path):
    cased = WordPiece(made_vocabulary.write(tmp_path / "vocab.txt", ["Résumé", "resume"]), lower_case=False)
    assert tokens(cased, "Résumé resume") == ["Résumé", "resume"]


def test_nothing_gives_nothing(made):
    (pieces,) = made.encode([" \n\u200b "])
    assert len(pieces) == 0 and pieces.offsets.shape == (0, 2)


def test_a_bad_vocabulary_is_named(tmp_path):
    path = tmp_path / "vocab.txt"
    with pytest.raises(ValueError, match="vocab.txt cannot be read: No such file"):
        WordPiece(str(path))
    path.write_text("[PAD]\n[UNK]\n[SEP]\n")
    with pytest.raises(ValueError, match=r"lacks \[CLS\], \[MASK\]; expected a vocabulary of BERT's form"):
        WordPiece(str(path))
    path.write_text("a\nb\na\n")
    with pytest.raises(ValueError, match="line 3 is 'a' as line 1"):
        WordPiece(str(path))
    path.write_bytes(b"\xff\n")
    with pytest.raises(ValueError, match="is not UTF-8"):
        WordPiece(str(path))


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
def test_the_ids_are_those_of_tf_models_official(lower_case):
    peer = pytest.importorskip("official.nlp.tools.tokenization", reason="tf-models-official is not installed")
    if not os.path.exists(REAL):
        pytest.skip("BERT's vocabulary is not at hand")
    theirs = peer.FullTokenizer(REAL, do_lower_case=lower_case)
    ours = WordPiece(REAL, lower_case=lower_case)
    for text in strange_texts():
        assert ours.ids(text) == theirs.convert_tokens_to_ids(theirs.tokenize(text)), ascii(text)
