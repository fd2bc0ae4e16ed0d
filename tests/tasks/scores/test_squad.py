"""SQuAD's scores: by hand, beside tf-models-official's copy of the scripts, and on real predictions."""

import json
import os
import random

import pytest

from tfbigbatch.tasks.scores import squad

# A folder of data sets, each in a folder of its name; tests that need one skip where it is absent.
REAL = os.path.join(os.environ.get("TFBIGBATCH_DATA", "data"), "squad")
# The published scores of five systems on v1.1's development set, to more digits.
PUBLISHED = {
    "bert_ensemble": (86.206, 92.196, 0),
    "logistic_regression_baseline": (40.142, 50.982, 13),
    "match_lstm_boundary_ensemble": (67.635, 76.756, 0),
    "rnet_plus_ensemble": (82.469, 88.478, 0),
    "slqa_plus_ensemble": (81.949, 88.384, 0),
}


def test_case_punctuation_articles_and_spaces_do_not_count():
    assert squad.normalised("  The U.S.  of\tA, an `Apple'\n") == "us of apple"
    # Theatre begins with an article's letters; only ASCII punctuation goes.
    assert squad.normalised("Theatre “x”") == "theatre “x”"


def test_the_best_answer_counts_and_a_missing_prediction_counts_nothing():
    answers = {"a": ["Denver Broncos", "the Broncos"], "b": ["gold"], "c": ["red one"]}
    result = squad.scores(answers, {"a": "Broncos!", "b": "gold and red", "elsewhere": "x"})
    # b: one word of three is right, of one that was wanted.
    assert result == {
        "exact_match": pytest.approx(100 / 3),
        "f1": pytest.approx(100 * (1 + 0.5) / 3),
        "total": 3,
        "unanswered": 1,
    }


@pytest.mark.parametrize(
    "answers, predictions, said",
    [
        ({}, {}, "hold no question"),
        ({"a": ["x"]}, {"b": "x"}, "expected ids such as 'a'"),
        ({"a": ["x"]}, {"a": None}, "prediction for 'a' is None; expected a text"),
        ({"a": ["x"], "b": []}, {"a": "x"}, "question 'b' has no answer .1 such questions.*rules of v2"),
    ],
)
def test_what_cannot_be_scored_is_refused(answers, predictions, said):
    with pytest.raises(ValueError, match=said):
        squad.scores(answers, predictions)


def test_no_answer_is_the_empty_text():
    answers = {"a": ["red"], "b": [], "c": [], "d": ["blue"]}
    result = squad.scores(answers, {"a": "red", "b": "", "c": "green"}, no_answer=True)
    assert result == {
        "exact_match": 50.0,
        "f1": 50.0,
        "total": 4,
        "unanswered": 1,
        "has_answer_exact_match": 50.0,
        "has_answer_f1": 50.0,
        "has_answer_total": 2,
        "no_answer_exact_match": 50.0,
        "no_answer_f1": 50.0,
        "no_answer_total": 2,
    }


def test_thresholds_for_no_answer():
    answers = {"a": ["red"], "b": [], "c": ["blue"]}
    predictions, odds = {"a": "red", "b": "green", "c": "yellow"}, {"a": 0.1, "b": 0.5, "c": 0.9}
    result = squad.scores(answers, predictions, no_answer=True, odds=odds)
    assert (result["best_exact_match"], result["best_exact_match_threshold"]) == (pytest.approx(200 / 3), 0.1)
    with pytest.raises(ValueError, match="the odds of no answer of 'b' are None; expected a number"):
        squad.scores(answers, predictions, no_answer=True, odds={"a": 0.1, "c": 0.9})


def made_at_random(fewest):
    """Answers, `fewest` or more a question, and predictions, of words that normalisation changes."""
    draw = random.Random(0)
    words = ["the", "a", "red", "Blue", "sky.", "of", "U.S."]

    def text():
        return " ".join(draw.choices(words, k=draw.randint(0, 4)))

    answers = {str(i): [text() for _ in range(draw.randint(fewest, 3))] for i in range(400)}
    return answers, {question: text() for question in answers}


def in_an_article(answers):
    qas = [{"id": question, "answers": [{"text": text} for text in texts]} for question, texts in answers.items()]
    return [{"paragraphs": [{"qas": qas}]}]


def test_the_rules_of_v1_are_those_of_tf_models_official():
    peer = pytest.importorskip("official.nlp.tools.squad_evaluate_v1_1", reason="tf-models-official is not installed")
    answers, predictions = made_at_random(1)
    del predictions["7"]
    theirs = peer.evaluate(in_an_article(answers), predictions)
    ours = squad.scores(answers, predictions)
    # Theirs are in [0, 1].
    assert ours["exact_match"] == pytest.approx(100 * theirs["exact_match"])
    assert ours["f1"] == pytest.approx(100 * theirs["final_f1"]) and ours["unanswered"] == 1


def test_the_rules_of_v2_are_those_of_tf_models_official():
    peer = pytest.importorskip("official.nlp.tools.squad_evaluate_v2_0", reason="tf-models-official is not installed")
    answers, predictions = made_at_random(0)
    draw = random.Random(1)
    odds = {question: draw.random() for question in answers}
    theirs = peer.evaluate(in_an_article(answers), predictions, odds)
    ours = squad.scores(answers, predictions, no_answer=True, odds=odds)
    names = {
        "exact": "exact_match",
        "f1": "f1",
        "total": "total",
        "HasAns_exact": "has_answer_exact_match",
        "HasAns_f1": "has_answer_f1",
        "NoAns_exact": "no_answer_exact_match",
        "NoAns_total": "no_answer_total",
        "final_exact": "best_exact_match",
        "final_exact_thresh": "best_exact_match_threshold",
        "final_f1": "best_f1",
        "final_f1_thresh": "best_f1_threshold",
    }
    assert {ours_: ours[ours_] for ours_ in names.values()} == pytest.approx(
        {ours_: theirs[their] for their, ours_ in names.items()}
    )


@pytest.fixture(scope="module")
def development_answers():
    path = os.path.join(REAL, "dev-v1.1.json")
    if not os.path.exists(path):
        pytest.skip(f"{REAL} does not hold SQuAD")
    with open(path, encoding="utf-8") as file:
        articles = json.load(file)["data"]
    return {
        qa["id"]: [answer["text"] for answer in qa["answers"]]
        for article in articles
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    }


@pytest.mark.parametrize("system", PUBLISHED)
def test_real_predictions_score_as_published(system, development_answers):
    with open(os.path.join(REAL, "predictions", f"{system}.json"), encoding="utf-8") as file:
        result = squad.scores(development_answers, json.load(file))
    assert result["total"] == 10570
    assert (round(result["exact_match"], 3), round(result["f1"], 3), result["unanswered"]) == PUBLISHED[system]
