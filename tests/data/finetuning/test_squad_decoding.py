"""Decoding: by hand, beside tf-models-official's, and there and back on the real development set."""

import collections
import os

import numpy as np
import pytest

from tests.helpers.datasets import made_squad, made_vocabulary
from tfbigbatch.data.finetuning import squad, squad_decoding
from tfbigbatch.data.finetuning.squad import Question
from tfbigbatch.data.tokenizer import Tokenizer, Vocabulary

# A folder of data sets, each in a folder of its name; tests that need one skip where it is absent.
DATA = os.environ.get("TFBIGBATCH_DATA", "data")
REAL, VOCABULARY = os.path.join(DATA, "squad", "dev-v1.1.json"), os.path.join(DATA, "bert_vocab", "vocab.txt")
CONTEXT = "A b c, d e f g h i j"


@pytest.fixture
def tokenizer(tmp_path):
    return made_vocabulary.tokenizer(tmp_path / "vocab.txt")


@pytest.fixture
def found(tokenizer):
    """Windows of 'a b c , d e', 'c , d e f g' less a first piece, and so on, three pieces apart."""
    question = Question("q", "x y", CONTEXT, (("d e", 7),))
    return squad.windows([question], tokenizer, max_seq_length=11, doc_stride=3, max_query_length=2)


def logits(windows, *entries):
    """(start, end) logits that are 0 but for entries of (window, 0 for start or 1 for end, position, value)."""
    both = np.zeros((2, *windows.most_context.shape), np.float32)
    for row, which, position, value in entries:
        both[which, row, position] = value
    return both


def pointing_at_the_answers(windows):
    """Logits that are great where the true answers start and end."""
    both = np.zeros((2, *windows.most_context.shape), np.float32)
    rows = np.arange(len(windows))
    both[0, rows, windows.start_positions] = both[1, rows, windows.end_positions] = 10
    return both


def test_the_answer_is_the_text_itself(found):
    answers = squad_decoding.decode(found, *logits(found, (0, 0, 4, 5), (0, 1, 7, 5)))
    assert answers.predictions == {"q": "A b c,"} and answers.no_answer_odds == {}


@pytest.mark.parametrize(
    "entries, expected",
    [
        # The end before the start, the start in the question, and the end at [SEP] do not count.
        ([(0, 0, 5, 9), (0, 1, 4, 9), (0, 1, 6, 3)], "b c"),
        ([(0, 0, 1, 9), (0, 1, 4, 9), (0, 0, 4, 1)], "A"),
        ([(0, 1, 10, 9), (0, 0, 4, 5), (0, 1, 4, 5)], "A"),
        # The comma has more context in the first window than in the second, where it is the first piece.
        ([(1, 0, 4, 9), (1, 1, 4, 9), (0, 0, 7, 4), (0, 1, 7, 4)], ","),
        # Four pieces are too long.
        ([(0, 0, 4, 9), (0, 1, 7, 9), (0, 1, 5, 4)], "A b"),
    ],
)
def test_a_pair_that_makes_no_answer_does_not_count(found, entries, expected):
    answers = squad_decoding.decode(found, *logits(found, *entries), max_answer_length=3)
    assert answers.predictions == {"q": expected}


def test_no_answer_wins_by_its_threshold(found):
    rows = [(row, which, 0, value) for row, value in ((0, 3), (1, 2), (2, 4)) for which in (0, 1)]
    both = logits(found, *rows, (0, 0, 4, 1), (0, 1, 4, 1))
    low = squad_decoding.decode(found, *both, no_answer=True)
    # The smallest score of no answer is 4; "A" has 2.
    assert low.no_answer_odds == {"q": pytest.approx(2)} and low.predictions == {"q": ""}
    high = squad_decoding.decode(found, *both, no_answer=True, threshold=2.5)
    assert high.predictions == {"q": "A"}
    assert squad_decoding.decode(found, *both).predictions == {"q": "A"}


def test_logits_of_another_shape_or_not_finite_are_refused(found):
    start, end = logits(found)
    with pytest.raises(ValueError, match=r"end logits of \[2, 11\]; expected \[3, 11\]"):
        squad_decoding.decode(found, start, end[:2])
    start[1, 3] = np.nan
    with pytest.raises(ValueError, match="the start logits of window 1 are not finite .1 such windows"):
        squad_decoding.decode(found, start, end)
    with pytest.raises(ValueError, match="n_best_size=0"):
        squad_decoding.decode(found, end, end, n_best_size=0)


def test_there_and_back_with_questions_without_an_answer(tokenizer, tmp_path):
    questions = squad.read(made_squad.write(tmp_path / "two.json", version_2=True))
    found = squad.windows(questions, tokenizer, max_seq_length=100)
    answers = squad_decoding.decode(found, *pointing_at_the_answers(found), no_answer=True)
    assert answers.predictions == {"a": "Broncos of Denver", "b": "24-10", "c": ""}
    assert answers.no_answer_odds["c"] > 0 > answers.no_answer_odds["a"]


Result = collections.namedtuple("Result", ["unique_id", "start_logits", "end_logits"])


@pytest.fixture(scope="module")
def real():
    if not os.path.exists(REAL) or not os.path.exists(VOCABULARY):
        pytest.skip("SQuAD or BERT's vocabulary is not at hand")
    return squad.read(REAL), Tokenizer(Vocabulary.load(VOCABULARY))


@pytest.mark.parametrize("no_answer", [False, True])
def test_random_logits_decode_as_in_tf_models_official(real, no_answer):
    peer = pytest.importorskip("official.nlp.data.squad_lib", reason="tf-models-official is not installed")
    tokenization = pytest.importorskip("official.nlp.tools.tokenization")
    questions, features = real[0][::300], []
    found = squad.windows(questions, real[1], max_seq_length=128, doc_stride=40, max_query_length=30)
    examples = [peer.SquadExample(q.id, q.text, q.context.split()) for q in questions]
    peer.convert_examples_to_features(
        examples,
        tokenization.FullTokenizer(VOCABULARY),
        max_seq_length=128,
        doc_stride=40,
        max_query_length=30,
        is_training=False,
        output_fn=lambda feature, is_padding: None if is_padding else features.append(feature),
        batch_size=1,
    )
    assert len(features) == len(found)
    start, end = np.random.RandomState(0).normal(size=(2, len(found), 128)).astype(np.float32)
    results = [Result(f.unique_id, s.tolist(), e.tolist()) for f, s, e in zip(features, start, end)]
    texts, _, odds = peer.postprocess_output(examples, features, results, 20, 30, True, no_answer)
    ours = squad_decoding.decode(found, start, end, no_answer=no_answer)
    assert ours.no_answer_odds == pytest.approx(dict(odds))
    for question in questions:
        # Theirs joins words by single spaces, and now and then ends up with the words around an answer.
        spaced = " ".join(ours.predictions[question.id].split())
        assert spaced in texts[question.id] and bool(spaced) == bool(texts[question.id])


def test_the_true_answers_come_back(real):
    from tfbigbatch.tasks.scores import squad as scores

    questions, tokenizer = real[0][::10], real[1]
    found = squad.windows(questions, tokenizer)
    answers = squad_decoding.decode(found, *pointing_at_the_answers(found))
    result = scores.scores(squad.answer_texts(questions), answers.predictions)
    # Of all 10,570: 99.584 and 99.657. Of 35 answers a piece reaches farther, as in the "gold" of "golden"; nine are
    # longer than 30 pieces.
    assert result["exact_match"] > 99.3 and result["f1"] > 99.5
