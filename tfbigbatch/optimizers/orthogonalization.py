"""The Newton-Schulz iteration of Muon as a pure function, and what it costs.

A matrix X = U S V^T (its singular value decomposition) has the polar factor U V^T: the nearest matrix with orthonormal
rows or columns. Muon steps along the polar factor of the momentum, approximated by a few Newton-Schulz steps. Matrices
come in batches [k, rows, columns] of float32 or float64; a Keras kernel has its inputs in rows, its outputs in columns.

Sources: Muon, Jordan et al. 2024 (kellerjordan.github.io/posts/muon); Polar Express, Amsel et al. 2025,
arXiv:2505.16932, Algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tfbigbatch.optimizers.rule import Tensor, of

# (a, b, c) of X <- a X + (b A + c A^2) X with A = X X^T.
Coefficients = tuple[float, float, float]

# Muon's: the steepest at zero that still ends near 1, in about [0.7, 1.2], rather than at it.
QUINTIC: Coefficients = (3.4445, -4.7750, 2.0315)
# Polar Express: a polynomial for each step, optimal for singular values from 1e-3; later steps repeat the last.
_POLAR_EXPRESS: tuple[Coefficients, ...] = (
    (8.28721201814563, -23.595886519098837, 17.300387312530933),
    (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
    (3.3184196573706015, -2.488488024314874, 0.51004894012372),
    (2.300652019954817, -1.6689039845747493, 0.4188073119525673),
    (1.891301407787398, -1.2679958271945868, 0.37680408948524835),
    (1.8750014808534479, -1.2500016453999487, 0.3750001645474248),
    (1.875, -1.25, 0.375),
)
# Keeps Polar Express within its interval under rounding; the paper's.
_SAFETY = 1.01
# So many steps in one Gram matrix: rounding leaves it eigenvalues below zero, for a matrix of low rank, that each step
# makes larger; after ten steps they would be infinite.
_GRAM_STEPS = 5
# A symmetric product is made in panels of so many rows, from two whole panels on: of smaller matrices, the copies cost
# more than what is left out.
_PANEL = 256


def coefficients(name: str, steps: int) -> tuple[Coefficients, ...]:
    """The coefficients of each Newton-Schulz step, for 'quintic' or 'polar_express'."""
    if name == "quintic":
        return (QUINTIC,) * steps
    own = [(a / _SAFETY, b / _SAFETY**3, c / _SAFETY**5) for a, b, c in _POLAR_EXPRESS[:-1]]
    return (*own, *[_POLAR_EXPRESS[-1]] * steps)[:steps]


def newton_schulz(
    matrices: Tensor, steps_coefficients: Sequence[Coefficients], product_dtype: str = "float32"
) -> Tensor:
    """The polar factors of a batch of matrices, approximately, by Newton-Schulz iteration.

    With the Gram matrix A = X^T X of the short side, a step is X <- X Q, Q = a I + b A + c A^2. Where one side is much
    longer, five steps are taken in A alone, A <- Q A Q, and X is multiplied by the product of their Q: the same
    polynomial of X, in which the long side enters in two products only.

    Args:
      matrices: [k, rows, columns], of any scale. A zero matrix stays zero; one with a NaN or an infinity becomes NaN.
      steps_coefficients: (a, b, c) of each step; see `coefficients`.
      product_dtype: 'float32', or 'bfloat16' for products of bfloat16 numbers, summed in float32 where the processor
        does so. Steps in A alone keep float32.

    Returns:
      [k, rows, columns] of the dtype of `matrices`.
    """
    rows, columns = matrices.shape[1:]
    size = _steps_in_gram(rows, columns, len(steps_coefficients), product_dtype)
    ops, x = of(matrices), _of_largest_one(matrices)
    if product_dtype == "bfloat16" and "float32" in str(x.dtype) and size == 1:
        x = ops.cast(x, "bfloat16")
    for first in range(0, len(steps_coefficients), size):
        gram, scale = _gram(x, matrices.dtype), 1.0
        if first == 0:
            # X over its Frobenius norm, the root of the trace: that bounds its singular values by 1.
            norm_squared = ops.trace(gram)[:, None, None]
            gram = ops.divide_no_nan(gram, norm_squared)
            scale = ops.divide_no_nan(1.0, ops.sqrt(norm_squared))
        factor = ops.cast(scale * _product_of_steps(gram, steps_coefficients[first : first + size], x.dtype), x.dtype)
        x = ops.matmul(x, factor) if rows > columns else ops.matmul(factor, x, transpose_a=True)
    return ops.cast(x, matrices.dtype)


def _of_largest_one(matrices: Tensor) -> Tensor:
    """Each matrix over its largest entry: the square of 1e-30 is zero in float32, that of 1e30 infinite."""
    ops = of(matrices)
    largest = ops.max(ops.abs(matrices), axis=(1, 2), keepdims=True)
    return matrices / ops.where(largest > 0.0, largest, 1.0)


def _gram(x: Tensor, dtype: Any) -> Tensor:
    """The Gram matrix of the short side, X^T X or X X^T."""
    ops = of(x)
    _, rows, columns = x.shape
    if rows > columns and columns < 2 * _PANEL:
        return ops.cast(ops.matmul(x, x, transpose_a=True), dtype)
    wide = ops.matrix_transpose(x) if rows > columns else x
    return ops.cast(_symmetric_product(wide, wide), dtype)


def _product_of_steps(gram: Tensor, steps_coefficients: Sequence[Coefficients], product_dtype: Any) -> Tensor:
    """The product of Q = a I + b A + c A^2 over the steps, with A <- Q A Q after each."""
    ops, product = of(gram), None
    for index, (a, b, c) in enumerate(steps_coefficients):
        factor = ops.cast(gram, product_dtype)
        square = ops.cast(_symmetric_product(factor, factor), gram.dtype)
        polynomial = b * gram + c * square
        step = ops.add_diagonal(polynomial, a)
        product = step if index == 0 else ops.matmul(product, step)
        if index + 1 < len(steps_coefficients):
            # In this order rounding errors do not grow: Q (Q A)^T, and not A Q^2.
            gram = _symmetric_product(step, ops.matmul(step, gram))
    return product


def _symmetric_product(a: Tensor, b: Tensor) -> Tensor:
    """A B^T where that is symmetric: panels of the upper triangle are computed, the rest mirrors them."""
    ops, size = of(a), a.shape[1]
    if size < 2 * _PANEL:
        return ops.matmul(a, b, transpose_b=True)
    starts = range(0, size, _PANEL)
    panels = [ops.matmul(a[:, start : start + _PANEL], b[:, start:], transpose_b=True) for start in starts]
    rows = []
    for start, panel in zip(starts, panels):
        left = [
            ops.matrix_transpose(above[:, :, start - at : start - at + _PANEL])
            for at, above in zip(starts, panels)
            if at < start
        ]
        rows.append(ops.concatenate([*left, panel], axis=2))
    return ops.concatenate(rows, axis=1)


def flops(rows: int, columns: int, steps: int, product_dtype: str = "float32") -> float:
    """Floating-point operations of `newton_schulz` on one matrix, a multiplication and an addition being two."""
    return _flops(rows, columns, steps, _steps_in_gram(rows, columns, steps, product_dtype))


def _steps_in_gram(rows: int, columns: int, steps: int, product_dtype: str) -> int:
    """The number of steps that one Gram matrix serves: 1 or five, whichever takes less time."""
    # Processors take half the time, or less, for products of bfloat16.
    direct = _flops(rows, columns, steps, 1) * (0.5 if product_dtype == "bfloat16" else 1.0)
    return _GRAM_STEPS if _flops(rows, columns, steps, _GRAM_STEPS) < direct else 1


def _flops(rows: int, columns: int, steps: int, steps_in_gram: int) -> float:
    short, long = sorted((rows, columns))
    # Of a symmetric product, the part that is computed.
    part = 1.0
    if short >= 2 * _PANEL:
        starts = range(0, short, _PANEL)
        part = sum(min(_PANEL, short - start) * (short - start) for start in starts) / short**2
    grams = math.ceil(steps / steps_in_gram)
    of_long = grams * (part + 1.0)  # X^T X, and X times the product
    of_short = steps * part + (steps - grams) * (2.0 + part)  # A^2; Q A, the product times Q, and Q (Q A)^T
    return 2.0 * short**2 * (of_long * long + of_short * short)
