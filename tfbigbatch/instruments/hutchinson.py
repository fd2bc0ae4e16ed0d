"""Hutchinson's estimate of a trace from matrix-vector products."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np


def hutchinson_trace(
    product: Callable[[np.ndarray], np.ndarray], size: int, *, samples: int = 10, seed: int = 0
) -> tuple[float, float]:
    """Estimates tr(A) as the mean of v' A v over random sign vectors v, with its standard error.

    Args:
      product: function from a float32 vector [size] to the matrix times it.
      size: of the matrix.
      samples: number of vectors, 2 or more.
      seed: of the signs.

    Returns:
      (estimate, standard error).

    Raises:
      ValueError: fewer than two samples.
    """
    if samples < 2:
        raise ValueError(f"samples={samples}: a standard error needs 2 or more.")
    random = np.random.RandomState(seed)
    values = []
    for _ in range(samples):
        vector = random.choice(np.array([-1.0, 1.0], np.float32), size)
        values.append(float(np.dot(vector, np.asarray(product(vector), np.float64))))
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(samples))
