"""Scores beside scikit-learn, SciPy and tf-models-official, on real predictions, and by hand."""

import functools
import json
import math
import random

import numpy as np
import pytest

from tests.helpers.datasets import real_data
from tfbigbatch.tasks import scores

REFERENCES = ["The cat sat on the mat.", "A dog barked at the red car."]


def test_equal_texts_score_100_and_the_signature_says_how():
    found = scores.bleu(REFERENCES, REFERENCES)
    assert found["score"] == pytest.approx(100.0)
    assert found["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    capitals = [text.upper() for text in REFERENCES]
    assert scores.bleu(capitals, REFERENCES)["score"] < 50
    # MLPerf's does not see capitals.
    found = scores.bleu(capitals, REFERENCES, lowercase=True, tokenize="intl")
    assert found["score"] == pytest.approx(100.0)
    assert "case:lc" in found["signature"] and "tok:intl" in found["signature"]


def test_the_formula():
    # Tokens: 7 and 8 of the references, 7 and 6 of the hypotheses.
    found = scores.bleu(["The cat lay on the mat.", "A dog barked at the car."], REFERENCES)
    precisions = [6 + 7, 4 + 5, 2 + 3, 1 + 2], [14, 12, 10, 8]
    mean = math.exp(sum(math.log(right / all_) for right, all_ in zip(*precisions)) / 4)
    assert found["score"] == pytest.approx(100 * math.exp(1 - 15 / 14) * mean)


@pytest.mark.parametrize("seed", range(5))
def test_classification_metrics_are_those_of_scikit_learn(seed):
    peer = pytest.importorskip("sklearn.metrics")
    random = np.random.RandomState(seed)
    labels = random.randint(0, 2, 300)
    predictions = np.where(random.rand(300) < 0.3 + 0.15 * seed, labels, 1 - labels)
    theirs = {"matthews": peer.matthews_corrcoef, "f1": peer.f1_score, "accuracy": peer.accuracy_score}
    for name, expected in theirs.items():
        found = scores.METRICS[name](labels, predictions)
        assert found == pytest.approx(expected(labels, predictions), abs=1e-12)


@pytest.mark.parametrize("ties", [False, True])
def test_correlations_are_those_of_scipy(ties):
    peer = pytest.importorskip("scipy.stats")
    random = np.random.RandomState(0)
    labels = random.rand(500) * 5
    predictions = labels + random.normal(size=500)
    if ties:
        labels, predictions = np.round(labels), np.round(predictions)
    assert scores.pearson(labels, predictions) == pytest.approx(peer.pearsonr(labels, predictions)[0], abs=1e-12)
    assert scores.spearman(labels, predictions) == pytest.approx(peer.spearmanr(labels, predictions)[0], abs=1e-12)


def test_constant_predictions_score_nothing_where_nothing_is_defined():
    labels, zeros = np.array([0, 1, 1, 0]), np.zeros(4, int)
    assert scores.glue("CoLA", labels, zeros) == {"matthews": 0.0, "score": 0.0}
    assert scores.glue("MRPC", labels, zeros) == {"f1": 0.0, "accuracy": 50.0, "score": 25.0}
    assert scores.glue("STS-B", labels, np.full(4, 2.5)) == {"pearson": 0.0, "spearman": 0.0, "score": 0.0}
    assert scores.f1(zeros, zeros) == 0.0


def test_a_task_has_its_metrics_and_their_mean():
    assert scores.glue("QQP", [1, 1, 0, 0], [1, 0, 0, 0]) == {
        "f1": pytest.approx(200 / 3),
        "accuracy": 75.0,
        "score": pytest.approx(425 / 6),
    }
    assert scores.glue("MNLI", [0, 1, 2], [0, 1, 1])["accuracy"] == pytest.approx(200 / 3)


def test_all_is_over_the_questions():
    levels = ["middle", "high", "high", "high"]
    result = scores.race(np.array([0, 1, 2, 3]), np.array([0, 1, 0, 0]), levels)
    assert result == {"middle": 100.0, "high": pytest.approx(100 / 3), "all": 50.0, "total": 4}
    assert scores.race([1], [1], ["middle"]) == {"middle": 100.0, "all": 100.0, "total": 1}


# The published scores of five systems on v1.1's development set, to more digits.
PUBLISHED = {
    "bert_ensemble": (86.206, 92.196, 0),
    "logistic_regression_baseline": (40.142, 50.982, 13),
    "match_lstm_boundary_ensemble": (67.635, 76.756, 0),
    "rnet_plus_ensemble": (82.469, 88.478, 0),
    "slqa_plus_ensemble": (81.949, 88.384, 0),
}


def test_case_punctuation_articles_and_spaces_do_not_count():
    assert scores.normalised("  The U.S.  of\tA, an `Apple'\n") == "us of apple"
    # Theatre begins with an article's letters; only ASCII punctuation goes.
    assert scores.normalised("Theatre “x”") == "theatre “x”"


def test_the_best_answer_counts_and_a_missing_prediction_counts_nothing():
    answers = {"a": ["Denver Broncos", "the Broncos"], "b": ["gold"], "c": ["red one"]}
    result = scores.squad(answers, {"a": "Broncos!", "b": "gold and red", "elsewhere": "x"})
    # b: one word of three is right, of one that was wanted.
    assert result == {
        "exact_match": pytest.approx(100 / 3),
        "f1": pytest.approx(100 * (1 + 0.5) / 3),
        "total": 3,
        "unanswered": 1,
    }


def test_no_answer_is_the_empty_text():
    answers = {"a": ["red"], "b": [], "c": [], "d": ["blue"]}
    result = scores.squad(answers, {"a": "red", "b": "", "c": "green"}, no_answer=True)
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


def made_at_random():
    """Answers, three at most a question, and predictions, of words that normalisation changes."""
    draw = random.Random(0)
    words = ["the", "a", "red", "Blue", "sky.", "of", "U.S."]

    def text():
        return " ".join(draw.choices(words, k=draw.randint(0, 4)))

    answers = {str(i): [text() for _ in range(draw.randint(0, 3))] for i in range(400)}
    return answers, {question: text() for question in answers}


def test_the_rules_of_v2_are_those_of_tf_models_official():
    peer = pytest.importorskip("official.nlp.tools.squad_evaluate_v2_0", reason="tf-models-official is not installed")
    answers, predictions = made_at_random()
    qas = [{"id": question, "answers": [{"text": text} for text in texts]} for question, texts in answers.items()]
    theirs = peer.evaluate([{"paragraphs": [{"qas": qas}]}], predictions)
    ours = scores.squad(answers, predictions, no_answer=True)
    names = {
        "exact": "exact_match",
        "f1": "f1",
        "total": "total",
        "HasAns_exact": "has_answer_exact_match",
        "HasAns_f1": "has_answer_f1",
        "NoAns_exact": "no_answer_exact_match",
        "NoAns_total": "no_answer_total",
    }
    assert {ours_: ours[ours_] for ours_ in names.values()} == pytest.approx(
        {ours_: theirs[their] for their, ours_ in names.items()}
    )


@pytest.fixture(scope="module")
def development_answers():
    with open(real_data.path("squad", "dev-v1.1.json"), encoding="utf-8") as file:
        articles = json.load(file)["data"]
    return {
        qa["id"]: [answer["text"] for answer in qa["answers"]]
        for article in articles
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    }


@pytest.mark.parametrize("system", PUBLISHED)
def test_real_predictions_score_as_published(system, development_answers):
    with open(real_data.path("squad", "predictions", f"{system}.json"), encoding="utf-8") as file:
        result = scores.squad(development_answers, json.load(file))
    assert result["total"] == 10570
    assert (round(result["exact_match"], 3), round(result["f1"], 3), result["unanswered"]) == PUBLISHED[system]


@pytest.mark.parametrize(
    "score, arguments, said",
    [
        (scores.bleu, (["a"], ["a", "b"]), "1 hypotheses and 2 references; expected one reference for each"),
        (scores.bleu, ([], []), "0 hypotheses and 0 references"),
        (functools.partial(scores.bleu, tokenize="14a"), (["a"], ["a"]), "tokenize='14a': .* of sacrebleu's, .*13a"),
        (scores.glue, ("SST2", [1], [1]), "'SST2' is not a task of GLUE. Did you mean 'SST-2'"),
        (scores.glue, ("RTE", [1, 0], [1]), "labels of .2., predictions of .1."),
        (scores.glue, ("RTE", [], []), "not empty"),
        (scores.glue, ("STS-B", [1.0, 2.0], [1.0, np.nan]), "the predictions hold NaN"),
        (scores.glue, ("CoLA", [1, 0], [1, -1]), "CoLA: found the class -1; expected 0 or 1"),
        (scores.race, ([1, 2], [1], ["high", "high"]), "expected arrays of one length"),
        (scores.race, ([], [], []), "not empty"),
        (scores.squad, ({}, {}), "hold no question"),
        (scores.squad, ({"a": ["x"]}, {"b": "x"}), "expected ids such as 'a'"),
        (scores.squad, ({"a": ["x"]}, {"a": None}), "prediction for 'a' is None; expected a text"),
        (scores.squad, ({"a": ["x"], "b": []}, {"a": "x"}), "question 'b' has no answer .1 such.*rules of v2"),
    ],
)
def test_what_cannot_be_scored_is_refused(score, arguments, said):
    with pytest.raises(ValueError, match=said):
        score(*arguments)
