"""Inverse p-th roots of stacks of symmetric positive semi-definite matrices, as pure functions.

Every function takes and returns tensors [k, n, n] of float32 or float64 and keeps no state. Two methods: the coupled
Newton iteration, of matrix products alone and so the one for accelerators (Higham, Functions of Matrices, 2008,
equation 7.18; Anil et al. 2020, arXiv:2002.09018, section 5), and the eigendecomposition. Products are of full float32:
in less, the iteration does not converge.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from tfbigbatch.optimizers.rule import Tensor, of

# Newton: a matrix is finished below this error; with 128 rows the rounding of float32 is a little less.
_TOLERANCE = 1e-5
# Or where an error that was small rises by more than this, which rounding does. Before it is small it may rise: the
# largest entry is no norm that falls from step to step.
_SMALL_ERROR, _ALLOWED_RISE = 0.1, 1.2
# Or where it is above this: the eigenvalues of N lie within (0, (p + 1) / 2] at first and within (0, 1] from then on.
_LARGEST_ERROR = 2.0
# A condition of 1e6 takes 26 with p = 4, 41 with p = 2.
_MOST_ITERATIONS = 100
# The largest eigenvalue only scales the damping: an iteration that stops early is close enough.
_EIGENVALUE_TOLERANCE = 1e-3
_MOST_POWER_ITERATIONS = 100


class Roots(NamedTuple):
    """Inverse roots X, [k, n, n], and residuals, [k]: the largest entry of |X^(p/2) M X^(p/2) - I| of each."""

    roots: Tensor
    residuals: Tensor


def inverse_roots(matrices: Tensor, p: int, *, epsilon: float, method: str | None = None) -> Roots:
    """(M + epsilon lambda_max I)^(-1/p) of each matrix M, lambda_max being its largest eigenvalue.

    Each matrix is divided by its largest entry first, so that the statistics of very small or large gradients stay
    within float32. A matrix of zeros is damped by epsilon itself.

    Args:
      matrices: [k, n, n], symmetric positive semi-definite.
      p: 1 or more.
      epsilon: above 0; the condition of the damped matrix is at most 1 + 1 / epsilon. float32 can do about 1e6.
      method: 'newton', 'eigh', or None: the faster one. On a CPU a decomposition takes a seventh of the time of the
        iteration; those of TensorFlow's XLA and of accelerators are slow.

    Returns:
      The roots and their residuals. Both are NaN for a matrix that is not finite.
    """
    ops = of(matrices)
    faster = "eigh" if ops.has_fast_decompositions() else "newton"
    method = method or faster
    # By XLA on a GPU, where the products cannot be had in full float32 otherwise.
    return ops.apart(_inverse_roots, matrices, p, epsilon, method, jit_compile=method == faster == "newton")


def _inverse_roots(matrices: Tensor, p: int, epsilon: float, method: str) -> Roots:
    ops, one = of(matrices), _identity(matrices)
    largest_entry = ops.max(ops.abs(matrices), axis=(1, 2), keepdims=True)
    scale = ops.where(largest_entry > 0.0, largest_entry, 1.0)
    is_finite = ops.isfinite(largest_entry)
    # The decomposition raises an error for NaN.
    matrices = ops.where(is_finite, matrices / scale, one)
    if method == "eigh":
        values, vectors = ops.eigh(matrices)
        largest = values[:, -1]
    else:
        largest = _largest_eigenvalue(matrices)
    damping = epsilon * ops.where(largest > 0.0, largest, 1.0)
    damped = matrices + damping[:, None, None] * one
    if method == "eigh":
        # Rounding leaves small eigenvalues below zero.
        powers = (ops.maximum(values, 0.0) + damping[:, None]) ** (-1.0 / p)
        roots = ops.precise_matmul(vectors * powers[:, None], ops.matrix_transpose(vectors))
    else:
        roots = _coupled_newton(damped, p)
    return Roots(
        ops.where(is_finite, roots * scale ** (-1.0 / p), math.nan),
        ops.where(is_finite[:, 0, 0], _residual(damped, roots, p), math.nan),
    )


def _largest_eigenvalue(matrices: Tensor) -> Tensor:
    """The largest eigenvalue of each matrix, [k], by power iteration."""
    ops, size = of(matrices), matrices.shape[-1]
    # A fixed start, so that all replicas agree; its entries follow no pattern that an eigenvector is likely to have.
    start = ops.cos(ops.arange(1, size + 1, dtype=matrices.dtype) ** 2)[:, None]
    vectors = start / ops.norm(start) * ops.ones_like(matrices[:, :, :1])
    values = ops.zeros_like(matrices[:, 0, 0])

    def is_unfinished(index: Tensor, vectors: Tensor, values: Tensor, change: Tensor) -> Tensor:
        moves = ops.any(change > _EIGENVALUE_TOLERANCE * values)
        return ops.logical_and(index < _MOST_POWER_ITERATIONS, ops.logical_or(index < 2, moves))

    def iterate(index: Tensor, vectors: Tensor, values: Tensor, change: Tensor) -> tuple[Tensor, ...]:
        products = ops.precise_matmul(matrices, vectors)
        new_values = ops.sum(vectors * products, axis=(1, 2))
        lengths = ops.norm(products, axis=(1, 2), keepdims=True)
        return index + 1, ops.divide_no_nan(products, lengths), new_values, ops.abs(new_values - values)

    return ops.while_loop(is_unfinished, iterate, (0, vectors, values, values))[2]


def _coupled_newton(matrices: Tensor, p: int) -> Tensor:
    """M^(-1/p) of positive definite matrices by the coupled Newton iteration.

    X and N begin as z^(1/p) I and z M, with z such that the eigenvalues of N lie in (0, (p + 1) / 2]. Then, until N is
    the identity: T = ((p + 1) I - N) / p, X <- X T, N <- T^p N. Each matrix stops where its error |N - I| is small
    enough, or rises after it was small, and keeps the better X; the stack is finished when all are. No
    matrix may be so near to a singular one that rounding makes it one.
    """
    ops, one = of(matrices), _identity(matrices)
    norms = ops.norm(matrices, axis=(1, 2), keepdims=True)
    z = (p + 1.0) / (2.0 * norms)
    roots, coupled = one * z ** (1.0 / p), matrices * z
    error = _distance_from_identity(coupled)
    largest = max(_LARGEST_ERROR, (p + 1.0) / 2.0)

    def is_unfinished(index: Tensor, *state: Tensor) -> Tensor:
        return ops.logical_and(index < _MOST_ITERATIONS, ops.any(state[-1]))

    def iterate(index: Tensor, roots: Tensor, coupled: Tensor, error: Tensor, runs: Tensor) -> tuple[Tensor, ...]:
        step = ((p + 1.0) * one - coupled) / p
        new_coupled = ops.precise_matmul(_power(step, p), coupled)
        new_error = _distance_from_identity(new_coupled)
        allowed = ops.where(error < _SMALL_ERROR, _ALLOWED_RISE * error, largest)
        runs = ops.logical_and(runs, new_error < allowed)
        taken = runs[:, None, None]
        roots = ops.where(taken, ops.precise_matmul(roots, step), roots)
        coupled = ops.where(taken, new_coupled, coupled)
        error = ops.where(runs, new_error, error)
        return index + 1, roots, coupled, error, ops.logical_and(runs, error > _TOLERANCE)

    return ops.while_loop(is_unfinished, iterate, (0, roots, coupled, error, error > _TOLERANCE))[1]


def _residual(matrices: Tensor, roots: Tensor, p: int) -> Tensor:
    """The largest entry of |X^a M X^b - I|, [k], with a + b = p and the two as near as can be.

    Of the root itself, where the iteration's own error is of a matrix that rounding lets drift from it. In two halves,
    since X^p M multiplies the rounding of X by more.
    """
    products = of(roots).precise_matmul(matrices, _power(roots, p - p // 2))
    return _distance_from_identity(of(roots).precise_matmul(_power(roots, p // 2), products) if p > 1 else products)


def flops(size: int, p: int) -> float:
    """Floating-point operations of 20 Newton iterations on one matrix: the usual number with a damping of 1e-5."""
    products = 2 + p.bit_length() - 1 + p.bit_count() - 1
    return 20 * products * 2.0 * size**3


def _power(matrices: Tensor, p: int) -> Tensor:
    """M^p by repeated squaring, for p of 1 or more."""
    if p == 1:
        return matrices
    ops, half = of(matrices), _power(matrices, p // 2)
    squared = ops.precise_matmul(half, half)
    return ops.precise_matmul(squared, matrices) if p % 2 else squared


def _distance_from_identity(matrices: Tensor) -> Tensor:
    ops = of(matrices)
    return ops.max(ops.abs(matrices - _identity(matrices)), axis=(1, 2))


def _identity(matrices: Tensor) -> Tensor:
    return of(matrices).eye(matrices.shape[-1], dtype=matrices.dtype)
