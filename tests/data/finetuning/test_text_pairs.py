import numpy as np
import pytest

from tfbigbatch.data.finetuning import text_pairs


def test_the_longer_text_is_cut_first_one_piece_at_a_time():
    for first in range(9):
        for second in range(9):
            for room in range(1, 12):
                a, b = first, second
                while a + b > room:
                    a, b = (a - 1, b) if a > b else (a, b - 1)
                assert text_pairs.kept(first, second, room) == (a, b)


def test_a_pair_and_its_padding(tokenizer):
    packed = text_pairs.pack(tokenizer.vocabulary, [[50, 51, 52, 53], [60]], [[70, 71], []], 8)
    assert all(array.dtype == np.int32 for array in packed.values())
    # [CLS] is 2 and [SEP] 3; of four and two pieces, five have room.
    np.testing.assert_array_equal(packed["input_word_ids"], [[2, 50, 51, 52, 3, 70, 71, 3], [2, 60, 3, 3, 0, 0, 0, 0]])
    np.testing.assert_array_equal(packed["input_mask"], [[1] * 8, [1] * 4 + [0] * 4])
    np.testing.assert_array_equal(packed["input_type_ids"], [[0] * 5 + [1] * 3, [0, 0, 0, 1, 0, 0, 0, 0]])


def test_too_short_a_sequence_is_refused(tokenizer):
    with pytest.raises(ValueError, match="max_seq_length=4: expected 5 or more"):
        text_pairs.pack(tokenizer.vocabulary, [[1]], [[1]], 4)
    with pytest.raises(ValueError, match="max_seq_length=2: expected 3 or more"):
        text_pairs.pack(tokenizer.vocabulary, [[1]], None, 2)
