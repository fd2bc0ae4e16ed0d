"""GLUE's metrics, and the metrics of each task.

Source: Wang et al. 2019 (GLUE), table 1 and section 4: the score of a task with two metrics is their mean. Metrics are
in [0, 1], correlations in [-1, 1], as scikit-learn and SciPy give them; `scores` are in percent, as on GLUE's
leaderboard.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from tfbigbatch.errors import InputError, nearest


def accuracy(labels: np.ndarray, predictions: np.ndarray) -> float:
    """The fraction of equal entries of two arrays [n]."""
    return float(np.mean(labels == predictions))


def f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """F1 of class 1, for arrays [n] of 0 and 1; 0 where no 1 was predicted correctly."""
    right = np.sum((labels == 1) & (predictions == 1))
    named = np.sum(labels == 1) + np.sum(predictions == 1)
    return float(2 * right / named) if right else 0.0


def matthews(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Matthews correlation coefficient of arrays [n] of 0 and 1; 0 where either is constant."""
    # For two classes it is the Pearson correlation of the labels (the phi coefficient).
    return pearson(labels, predictions)


def pearson(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Pearson correlation of arrays [n]; 0 where either is constant, where SciPy gives NaN."""
    x, y = (array.astype(np.float64) for array in (labels, predictions))
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    x, y = x - x.mean(), y - y.mean()
    product = (x / np.linalg.norm(x)) @ (y / np.linalg.norm(y))
    return float(np.clip(product, -1.0, 1.0))


def spearman(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Spearman correlation of arrays [n], with mean ranks for ties; 0 where either is constant."""
    return pearson(_ranks(labels), _ranks(predictions))


METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": accuracy,
    "f1": f1,
    "matthews": matthews,
    "pearson": pearson,
    "spearman": spearman,
}
TASKS: dict[str, tuple[str, ...]] = {
    "CoLA": ("matthews",),
    "SST-2": ("accuracy",),
    "MRPC": ("f1", "accuracy"),
    "STS-B": ("pearson", "spearman"),
    "QQP": ("f1", "accuracy"),
    "MNLI": ("accuracy",),
    "QNLI": ("accuracy",),
    "RTE": ("accuracy",),
    "WNLI": ("accuracy",),
}


def scores(task: str, labels: ArrayLike, predictions: ArrayLike) -> dict[str, float]:
    """A task's metrics.

    Args:
      task: a name in TASKS. MNLI's matched and mismatched examples are two calls.
      labels, predictions: arrays [n] of class indices, or for STS-B of similarities.

    Returns:
      The metrics by name, and 'score', their mean, in percent.

    Raises:
      ValueError: the task is unknown; the arrays are empty, of different lengths or not finite; or a metric of two
        classes gets another label.
    """
    if task not in TASKS:
        raise InputError(f"{task!r} is not a task of GLUE. {nearest(task, TASKS)}")
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    if labels.ndim != 1 or labels.shape != predictions.shape or labels.size == 0:
        raise InputError(
            f"labels of {list(labels.shape)} and predictions of {list(predictions.shape)}; "
            "expected two arrays of one length, and not empty."
        )
    for name, array in (("labels", labels), ("predictions", predictions)):
        if not np.isfinite(array).all():
            raise InputError(f"the {name} hold NaN or infinity; expected finite numbers.")
        wrong = array[(array != 0) & (array != 1)]
        if wrong.size and {"matthews", "f1"} & set(TASKS[task]):
            raise InputError(f"{task}: found the class {wrong[0]}; expected 0 or 1.")
    found = {name: 100.0 * METRICS[name](labels, predictions) for name in TASKS[task]}
    return {**found, "score": float(np.mean(list(found.values())))}


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1, with mean ranks for ties."""
    _, indices, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[indices]
