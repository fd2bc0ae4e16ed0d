"""GLUE's metrics beside scikit-learn's and SciPy's, and by hand."""

import numpy as np
import pytest

from tfbigbatch.tasks.scores import glue


@pytest.mark.parametrize("seed", range(5))
def test_classification_metrics_are_those_of_scikit_learn(seed):
    peer = pytest.importorskip("sklearn.metrics")
    random = np.random.RandomState(seed)
    labels = random.randint(0, 2, 300)
    predictions = np.where(random.rand(300) < 0.3 + 0.15 * seed, labels, 1 - labels)
    assert glue.matthews(labels, predictions) == pytest.approx(peer.matthews_corrcoef(labels, predictions), abs=1e-12)
    assert glue.f1(labels, predictions) == pytest.approx(peer.f1_score(labels, predictions), abs=1e-12)
    assert glue.accuracy(labels, predictions) == pytest.approx(peer.accuracy_score(labels, predictions), abs=1e-12)


@pytest.mark.parametrize("ties", [False, True])
def test_correlations_are_those_of_scipy(ties):
    peer = pytest.importorskip("scipy.stats")
    random = np.random.RandomState(0)
    labels = random.rand(500) * 5
    predictions = labels + random.normal(size=500)
    if ties:
        labels, predictions = np.round(labels), np.round(predictions)
    assert glue.pearson(labels, predictions) == pytest.approx(peer.pearsonr(labels, predictions)[0], abs=1e-12)
    assert glue.spearman(labels, predictions) == pytest.approx(peer.spearmanr(labels, predictions)[0], abs=1e-12)


def test_constant_predictions_score_nothing_where_nothing_is_defined():
    labels, zeros = np.array([0, 1, 1, 0]), np.zeros(4, int)
    assert glue.scores("CoLA", labels, zeros) == {"matthews": 0.0, "score": 0.0}
    assert glue.scores("MRPC", labels, zeros) == {"f1": 0.0, "accuracy": 50.0, "score": 25.0}
    assert glue.scores("STS-B", labels, np.full(4, 2.5)) == {"pearson": 0.0, "spearman": 0.0, "score": 0.0}
    assert glue.f1(zeros, zeros) == 0.0


def test_a_task_has_its_metrics_and_their_mean():
    assert glue.scores("QQP", [1, 1, 0, 0], [1, 0, 0, 0]) == {
        "f1": pytest.approx(200 / 3),
        "accuracy": 75.0,
        "score": pytest.approx(425 / 6),
    }
    assert glue.scores("MNLI", [0, 1, 2], [0, 1, 1])["accuracy"] == pytest.approx(200 / 3)


@pytest.mark.parametrize(
    "task, labels, predictions, said",
    [
        ("SST2", [1], [1], "'SST2' is not a task of GLUE. Did you mean 'SST-2'"),
        ("RTE", [1, 0], [1], "labels of .2. and predictions of .1."),
        ("RTE", [], [], "not empty"),
        ("STS-B", [1.0, 2.0], [1.0, np.nan], "the predictions hold NaN"),
        ("CoLA", [1, 0], [1, -1], "CoLA: found the class -1; expected 0 or 1"),
    ],
)
def test_what_cannot_be_scored_is_refused(task, labels, predictions, said):
    with pytest.raises(ValueError, match=said):
        glue.scores(task, labels, predictions)
