"""GLUE's metrics, and which task is measured by which.

Source: Wang et al. 2019 (GLUE), table 1 and section 4: a task with two metrics counts by their mean, and the
overall score is the mean over the tasks. Metrics of one array are in [0, 1], correlations in [-1, 1], as
scikit-learn and SciPy give them; `scores` and `average` are in percent, as on GLUE's leaderboard.
"""

import numpy as np

from tfbigbatch.errors import InputError, nearest


def accuracy(labels, predictions):
    """The share of equal entries of two arrays of [n]."""
    labels, predictions = _pair(labels, predictions)
    return float(np.mean(labels == predictions))


def f1(labels, predictions):
    """F1 of class 1, for arrays of 0 and 1 of [n]; 0 where no 1 was predicted rightly."""
    labels, predictions = _pair(labels, predictions)
    right = np.sum((labels == 1) & (predictions == 1))
    named = np.sum(labels == 1) + np.sum(predictions == 1)
    return float(2 * right / named) if right else 0.0


def matthews(labels, predictions):
    """Matthews correlation coefficient of arrays of 0 and 1 of [n]; 0 where either is constant."""
    # For two classes it is the Pearson correlation of the labels (the phi coefficient).
    return pearson(labels, predictions)


def pearson(labels, predictions):
    """Pearson correlation of arrays of [n]; 0 where either is constant, where SciPy gives NaN."""
    labels, predictions = (array.astype(np.float64) for array in _pair(labels, predictions))
    if np.ptp(labels) == 0 or np.ptp(predictions) == 0:
        return 0.0
    labels, predictions = labels - labels.mean(), predictions - predictions.mean()
    product = (labels / np.linalg.norm(labels)) @ (predictions / np.linalg.norm(predictions))
    return float(np.clip(product, -1.0, 1.0))


def spearman(labels, predictions):
    """Spearman correlation of arrays of [n], equal values sharing their mean rank; 0 where either is constant."""
    labels, predictions = _pair(labels, predictions)
    return pearson(_ranks(labels), _ranks(predictions))


METRICS = {"accuracy": accuracy, "f1": f1, "matthews": matthews, "pearson": pearson, "spearman": spearman}
TASKS = {
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


def scores(task, labels, predictions):
    """A task's metrics.

    Args:
      task: a name in TASKS. MNLI's matched and mismatched examples are two calls.
      labels, predictions: arrays of [n]: numbers of classes, or for STS-B similarities.

    Returns:
      Dictionary from the metrics' names to percent, and 'score', their mean.

    Raises:
      ValueError: the task is unknown; the arrays are empty, of two lengths or not finite; or a metric of two
        classes meets another label.
    """
    if task not in TASKS:
        raise InputError(f"{task!r} is not a task of GLUE. {nearest(task, TASKS)}")
    if {"matthews", "f1"} & set(TASKS[task]):
        for array in _pair(labels, predictions):
            wrong = array[(array != 0) & (array != 1)]
            if wrong.size:
                raise InputError(f"{task}: found the class {wrong[0]}; expected 0 or 1.")
    found = {name: 100.0 * METRICS[name](labels, predictions) for name in TASKS[task]}
    return {**found, "score": float(np.mean(list(found.values())))}


def average(results, tasks=tuple(TASKS)):
    """GLUE's overall score: the mean over the tasks of each one's score.

    Args:
      results: dictionary from a task's name to what `scores` gave; for MNLI, a list of the two of matched and
        mismatched, whose mean counts.
      tasks: the tasks that count. BERT's paper (Devlin et al. 2019, table 1) leaves out WNLI.

    Returns:
      The score in percent.

    Raises:
      ValueError: a task is missing.
    """
    missing = [task for task in tasks if task not in results]
    if missing:
        raise InputError(
            f"the average lacks {', '.join(missing)}; expected results of {', '.join(tasks)}. "
            "To average fewer tasks, name them."
        )
    entries = [results[task] if isinstance(results[task], list) else [results[task]] for task in tasks]
    return float(np.mean([np.mean([part["score"] for part in parts]) for parts in entries]))


def _pair(labels, predictions):
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    if labels.ndim != 1 or labels.shape != predictions.shape or labels.size == 0:
        raise InputError(
            f"labels of {list(labels.shape)} and predictions of {list(predictions.shape)}; "
            "expected two arrays of one length, and not empty."
        )
    for name, array in (("labels", labels), ("predictions", predictions)):
        if not np.isfinite(array).all():
            raise InputError(f"the {name} hold NaN or infinity; expected finite numbers.")
    return labels, predictions


def _ranks(values):
    """Ranks from 1, equal values sharing the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]
