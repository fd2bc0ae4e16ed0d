"""Eigenvalues by Lanczos' method and trace by Hutchinson's, of a symmetric matrix known by its products with vectors.

Own code: Lanczos' returns an error bound with each eigenvalue, and SciPy is no dependency of this package.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Callable

import numpy as np

# A remainder after reorthogonalisation below this fraction of the largest entry counts as rounding.
_ROUNDING = 1e-5


class Eigenvalues(typing.NamedTuple):
    """Eigenvalues (float64 [count], descending), bounds of their errors, and the number of products."""

    values: np.ndarray
    errors: np.ndarray
    products: int


def largest_eigenvalues(
    product: Callable[[np.ndarray], np.ndarray],
    size: int,
    count: int = 1,
    *,
    iterations: int = 30,
    tolerance: float = 1e-3,
    seed: int = 0,
) -> Eigenvalues:
    """The algebraically largest eigenvalues, by Lanczos' method with full reorthogonalisation.

    The error of an eigenvalue is at most its residual's norm; for an isolated one it is about the square of the norm
    over the gap. A multiple eigenvalue is found once, unless the Krylov space is exhausted.

    Args:
      product: function from a float32 vector [size] to the matrix times it.
      size: of the matrix.
      count: number of eigenvalues, 1 or more, at most `size` and `iterations`.
      iterations: maximum number of products; memory is iterations * size float32.
      tolerance: relative error bound at which the iterations stop.
      seed: of the first vector.

    Returns:
      Eigenvalues; NaN if a product is not finite.
    """
    limit = min(iterations, size)
    random = np.random.RandomState(seed)
    basis = np.zeros([limit, size], np.float32)
    # The projected matrix is tridiagonal, with `beside` next to the diagonal.
    diagonal: list[float] = []
    beside: list[float] = []
    exhausted = False
    basis[0] = _unit(random.normal(size=size))
    for step in range(limit):
        image = np.asarray(product(basis[step]), np.float32)
        if not np.isfinite(image).all():
            return Eigenvalues(np.full(count, np.nan), np.full(count, np.inf), step + 1)
        diagonal.append(float(np.dot(basis[step], image)))
        image = _orthogonal(image, basis[: step + 1])
        left = float(np.linalg.norm(image))
        found = _ritz(diagonal, beside, left, count)
        largest = max(map(abs, (*diagonal, *beside)))
        if step + 1 == limit:
            break
        if left <= _ROUNDING * largest:
            # An invariant subspace: larger eigenvalues may be outside of it, so continue with a new direction.
            exhausted, left = True, 0.0
            image = _orthogonal(_unit(random.normal(size=size)), basis[: step + 1])
        elif not exhausted and found and np.all(found[1] <= tolerance * np.maximum(np.abs(found[0]), 1e-6 * largest)):
            break
        beside.append(left)
        basis[step + 1] = _unit(image)
    assert found is not None  # limit >= count
    return Eigenvalues(*found, step + 1)


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
    """
    random = np.random.RandomState(seed)
    values = []
    for _ in range(samples):
        vector = random.choice(np.array([-1.0, 1.0], np.float32), size)
        values.append(float(np.dot(vector, np.asarray(product(vector), np.float64))))
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(samples))


def _ritz(diagonal: list[float], beside: list[float], left: float, count: int) -> tuple[np.ndarray, np.ndarray] | None:
    """(values, bounds) in the current basis; None if it is too small."""
    if len(diagonal) < count:
        return None
    matrix = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
    values, vectors = np.linalg.eigh(matrix)
    return values[::-1][:count], np.abs(left * vectors[-1, ::-1][:count])


def _orthogonal(vector: np.ndarray, basis: np.ndarray) -> np.ndarray:
    # Twice is enough: once leaves rounding in the directions that were large.
    for _ in range(2):
        vector = vector - basis.T @ (basis @ vector)
    return vector


def _unit(vector: np.ndarray) -> np.ndarray:
    return (vector / np.linalg.norm(vector)).astype(np.float32)
