"""Initial values of an output layer's bias from how often each class occurs, in NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tfbigbatch.errors import InputError

SMOOTHING = 1.0


def log_frequencies(counts: Any, smoothing: float = SMOOTHING) -> np.ndarray:
    """The logits of a model that predicts each class by its frequency alone: log((c_i + s) / sum_j (c_j + s)).

    As the bias of a softmax whose kernel contributes nothing yet, they give the entropy of the frequencies as the loss:
    what a model with biases of zero first has to learn.

    Args:
      counts: [classes], how often each class occurs; whole numbers or not, 0 or more.
      smoothing: s, added to each count: a class that never occurs has a logarithm too.

    Returns:
      float64 [classes].

    Raises:
      ValueError: the counts are not one row of finite numbers, 0 or more; or the smoothing is not finite, is negative,
        or is 0 where a count is 0.
    """
    found = _checked_counts(counts)
    _check_smoothing(smoothing, found)
    # In units of the largest: sums of huge counts stay finite.
    scale = max(found.max(), smoothing)
    smoothed = found / scale + smoothing / scale
    return np.log(smoothed) - math.log(smoothed.sum())


def _checked_counts(counts: Any) -> np.ndarray:
    """The counts as float64 [classes]."""
    expected = "expected one row of numbers, 0 or more: how often each class occurs, by its index"
    try:
        given = np.asarray(counts)
        found = given.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"counts={counts!r:.60}: {expected} ({error}).") from None
    if given.dtype == bool or np.iscomplexobj(given):
        raise InputError(f"counts are of dtype {given.dtype}: {expected}.")
    if found.ndim != 1 or not found.size:
        raise InputError(f"counts have the shape {list(found.shape)}: {expected}.")
    wrong = np.flatnonzero(~(np.isfinite(found) & (found >= 0)))
    if wrong.size:
        raise InputError(f"counts[{wrong[0]}]={found[wrong[0]]}: {expected}.")
    return found


def _check_smoothing(smoothing: Any, counts: np.ndarray) -> None:
    is_number = isinstance(smoothing, (int, float, np.number)) and not isinstance(smoothing, bool)
    if not is_number or not 0 <= smoothing < math.inf:
        raise InputError(f"smoothing={smoothing!r}: expected a finite number, 0 or more; the default is {SMOOTHING}.")
    if not smoothing and not counts.all():
        raise InputError(
            f"smoothing={smoothing}: class {int(np.argmin(counts))} never occurs, and its logarithm would be "
            f"-infinity. Expected a smoothing above 0; the default is {SMOOTHING}."
        )
