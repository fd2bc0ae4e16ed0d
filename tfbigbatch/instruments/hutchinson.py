"""The trace of a matrix that is known by its products with vectors: Hutchinson's estimate."""

import math

import numpy as np


def hutchinson_trace(product, size, *, samples=10, seed=0):
    """The mean of v' A v over vectors v of random signs, whose expectation is tr(A), and its standard error.

    Args:
      product: function from a float32 vector [size] to the matrix times it.
      size: of the matrix.
      samples: vectors, and so products; 2 or more.
      seed: of the signs.

    Returns:
      (estimate, standard error), floats.

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
