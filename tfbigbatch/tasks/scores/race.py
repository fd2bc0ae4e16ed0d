"""RACE's scores: the fraction of questions answered correctly, for middle and high school and for both.

Source: Lai et al. 2017, section 5; 'all' is over the questions, not the mean of the two.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tfbigbatch.errors import InputError

LEVELS = ("middle", "high")


def scores(labels: ArrayLike, predictions: ArrayLike, levels: ArrayLike) -> dict[str, float]:
    """Accuracies in percent.

    Args:
      labels, predictions: integer arrays [n], the correct and the chosen option of each question.
      levels: the level of each question, 'middle' or 'high', [n].

    Returns:
      'middle' and 'high', where there are such questions, and 'all', in percent; 'total', n.

    Raises:
      ValueError: the lengths differ, or there are no questions.
    """
    labels, predictions, levels = np.asarray(labels), np.asarray(predictions), np.asarray(levels)
    if not labels.shape == predictions.shape == levels.shape or labels.ndim != 1 or not labels.size:
        raise InputError(
            f"labels of {list(labels.shape)}, predictions of {list(predictions.shape)} and levels of "
            f"{list(levels.shape)}; expected three arrays of one length, and not empty."
        )
    correct = labels == predictions
    found = {level: 100.0 * float(correct[levels == level].mean()) for level in LEVELS if (levels == level).any()}
    return {**found, "all": 100.0 * float(correct.mean()), "total": int(labels.size)}
