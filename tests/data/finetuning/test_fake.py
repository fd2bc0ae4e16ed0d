import numpy as np
import pytest

from tfbigbatch.data.finetuning import fake, squad, squad_decoding
from tfbigbatch.data.finetuning.squad import answer_texts
from tfbigbatch.tasks.scores import squad as scores

FIRST_WORD = 5


@pytest.mark.parametrize("classes", [2, 3, None])
def test_the_first_word_of_a_pair_tells_its_label(classes):
    train, test = fake.pairs(classes)
    assert (len(train), len(test), train.tokens_per_example) == (64, 20, 32)
    told = train.features["input_word_ids"][:, 1] - FIRST_WORD
    np.testing.assert_allclose(train.labels, told if classes else told * 5 / 11, rtol=1e-6)
    assert train.labels.dtype == (np.int32 if classes else np.float32) and train.classes == classes
    assert not np.array_equal(train.features["input_word_ids"][:20], test.features["input_word_ids"])
    assert train.features["input_word_ids"].max() < len(fake.tokenizer().vocabulary)


def test_the_right_option_begins_with_the_first_word():
    train, test = fake.choices(4)
    assert train.features["input_mask"].shape == (64, 4, 32) and len(test) == 20
    ids, types = train.features["input_word_ids"], train.features["input_type_ids"]
    first = np.take_along_axis(ids, types.argmax(axis=-1)[..., np.newaxis], axis=-1)[..., 0]
    np.testing.assert_array_equal((first == FIRST_WORD).argmax(axis=1), train.labels)
    assert ((first == FIRST_WORD).sum(axis=1) == 1).all()


@pytest.mark.parametrize("no_answer", [False, True])
def test_answers_lie_in_their_paragraphs_or_nowhere(no_answer):
    train, test = fake.questions(no_answer=no_answer)
    windows = squad.windows(test, fake.tokenizer(), max_seq_length=32, max_query_length=8)
    assert (len(train), len(test), windows.lost) == (64, 20, ())
    assert sum(question.impossible for question in test) == (5 if no_answer else 0)
    logits = np.zeros((2, len(windows), 32))
    for row in range(len(windows)):
        logits[0, row, windows.start_positions[row]] = logits[1, row, windows.end_positions[row]] = 9
    found = squad_decoding.decode(windows, *logits, no_answer=no_answer).predictions
    assert scores.scores(answer_texts(test), found, no_answer=no_answer)["exact_match"] == 100
