"""The largest eigenvalues of a symmetric matrix that is known by its products with vectors: Lanczos' method."""

import typing

import numpy as np

# What is left of a product after reorthogonalisation counts as rounding below this part of the largest seen.
_ROUNDING = 1e-5


class Eigenvalues(typing.NamedTuple):
    """float64 [count], descending; a bound on each one's distance to an eigenvalue; and the products it took."""

    values: np.ndarray
    errors: np.ndarray
    products: int


def largest_eigenvalues(product, size, count=1, *, iterations=30, tolerance=1e-3, seed=0):
    """The algebraically largest eigenvalues, by Lanczos' method with full reorthogonalisation.

    The error of an eigenvalue is at most its residual's norm, and for one that stands apart from
    the rest about the square of it over the gap. Of an eigenvalue that occurs several times one is
    found, unless the vectors that can be reached are exhausted.

    Args:
      product: function from a float32 vector [size] to the matrix times it.
      size: of the matrix.
      count: eigenvalues, at most `size`.
      iterations: products at most; all their vectors are kept, iterations * size float32.
      tolerance: stops when the bounds of all `count` are below this part of their values.
      seed: of the first vector.

    Returns:
      Eigenvalues; NaN where a product is not finite.

    Raises:
      ValueError: not 1 <= count <= min(iterations, size).
    """
    limit = min(iterations, size)
    if not 1 <= count <= limit:
        raise ValueError(
            f"count={count} eigenvalues of a matrix of {size} rows in {iterations} iterations: expected 1 or more, and "
            "no more than either."
        )
    random = np.random.RandomState(seed)
    basis = np.zeros([limit, size], np.float32)
    # The matrix within the basis: tridiagonal, with `beside` next to the diagonal.
    diagonal, beside, exhausted = [], [], False
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
            # The rest of the space is its own: only all of it can tell that nothing larger is there.
            exhausted, left = True, 0.0
            image = _orthogonal(_unit(random.normal(size=size)), basis[: step + 1])
        elif not exhausted and found and np.all(found[1] <= tolerance * np.maximum(np.abs(found[0]), 1e-6 * largest)):
            break
        beside.append(left)
        basis[step + 1] = _unit(image)
    return Eigenvalues(*found, step + 1)


def _ritz(diagonal, beside, left, count):
    """(values, bounds) within the basis so far; None where it is too small."""
    if len(diagonal) < count:
        return None
    matrix = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
    values, vectors = np.linalg.eigh(matrix)
    return values[::-1][:count], np.abs(left * vectors[-1, ::-1][:count])


def _orthogonal(vector, basis):
    # Twice is enough: once leaves rounding in the directions that were large.
    for _ in range(2):
        vector = vector - basis.T @ (basis @ vector)
    return vector


def _unit(vector):
    return (vector / np.linalg.norm(vector)).astype(np.float32)
