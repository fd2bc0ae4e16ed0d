"""WordPiece as TensorFlow operations: the ids and the packing of the Python tokenizer."""

import random

import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.data.finetuning import text_pairs
from tfbigbatch.data.tokenizer import SPECIAL, Tokenizer, Vocabulary
from tfbigbatch.export.wordpiece import WordPiece

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
WORDS = ("the", "##ing", "un", "##aff", "##able", "cafe", "北", "ё", "straße", "##ß", "Hello", "résumé", "é")
VOCABULARY = Vocabulary([*SPECIAL, *LETTERS, *".,!?'-$^", *(f"##{each}" for each in LETTERS), *WORDS])
TEXTS = [
    *("Hello, unaffable the-ing  world!", "", "   ", "Café résumé", "北京 is big"),
    *("a\x00b\x0bc\x85d\u2028e\u00a0f\tg\nh", "Straße İstanbul ﬁ", "한국어 the", "\ue000\U0001f600 a", "$5^2 'tis"),
    *("unknown\u0e01word aff", "ÀÉ\u0301\u0300", "a\U000e0041b \U000e0101", "\U0002f800x", "x" * 400, "x" * 401),
]


def random_texts(count):
    draw = random.Random(0)
    ranges = ((32, 127), (32, 0x500), (0x2000, 0x3100), (0xAC00, 0xAD00), (32, 33))
    return ["".join(chr(draw.randrange(*draw.choice(ranges))) for _ in range(40)) for _ in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("lower_case", [True, False])
def test_the_ids_and_the_packed_pairs_are_those_of_the_tokenizer(lower_case):
    tokenizer, pieces = Tokenizer(VOCABULARY, lower_case), WordPiece(VOCABULARY, lower_case)
    texts = TEXTS + random_texts(60)
    expected = [tokenizer.ids(text) for text in texts]
    assert tf.function(pieces.ids)(tf.constant(texts)).to_list() == expected
    # Of every length between one token and more than there is room for.
    for length in (8, 40):
        for seconds in (None, slice(3, 13)):
            packed = text_pairs.pack(VOCABULARY, expected[:10], seconds and expected[seconds], length)
            found = pieces.pack(tf.constant(texts[:10]), seconds and tf.constant(texts[seconds]), length)
            width = found["input_mask"].shape[1]
            for name, values in packed.items():
                assert np.array_equal(found[name], values[:, :width]), (name, length)
            assert not packed["input_mask"][:, width:].any()
