"""The singular values of optimizer updates: in how many directions a step changes a layer.

For a matrix with the singular values s_1 >= s_2 >= ...:

    stable rank    = sum s_i^2 / s_1^2                       (Rudelson and Vershynin 2007)
    effective rank = exp(-sum p_i log p_i), p_i = s_i / sum s    (Roy and Vetterli 2007)

Both are 1 for an outer product of two vectors, and the length of the short side where all s_i are equal, as in the
polar factor that Muon steps along.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tfbigbatch.errors import InputError


@dataclasses.dataclass(frozen=True, eq=False)
class Spectrum:
    """The singular values of a matrix.

    Attributes:
      singular_values: float64 [short side], descending.
    """

    singular_values: np.ndarray

    @property
    def normalized(self) -> np.ndarray:
        """The singular values over the largest; zeros of a zero matrix."""
        largest = self.singular_values[0]
        return self.singular_values / largest if largest > 0.0 else self.singular_values

    @property
    def stable_rank(self) -> float:
        """Squared Frobenius norm over squared spectral norm, from 1 to the short side; 0 of a zero matrix."""
        return float(np.sum(self.normalized**2))

    @property
    def effective_rank(self) -> float:
        """exp of the entropy of the singular values over their sum; 0 of a zero matrix."""
        total = self.singular_values.sum()
        if not total > 0.0:
            return 0.0
        fractions = self.singular_values[self.singular_values > 0.0] / total
        return float(np.exp(-np.sum(fractions * np.log(fractions))))


def update_spectrum(update: Any, row_axes: int | None = None) -> Spectrum:
    """The spectrum of a variable's update, or of any tensor read as a matrix.

    Computed in float64 from the Gram matrix of the short side: singular values are right to 1e-8 of the largest.

    Args:
      update: of two axes or more, such as a kernel [in, out] or a convolution [h, w, in, out].
      row_axes: how many of the first axes are the matrix' rows; None for all but the last. 1 reads an attention
        kernel [in, heads, size] as [in, heads size].

    Raises:
      ValueError: there are less than two axes, an entry is not finite, or `row_axes` leaves no column.
    """
    array = np.asarray(update, np.float64)
    if array.ndim < 2 or not array.size:
        raise InputError(f"update_spectrum: an array of shape {array.shape}; expected two axes or more, none empty.")
    rows = array.ndim - 1 if row_axes is None else row_axes
    if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows < array.ndim:
        raise InputError(f"update_spectrum: row_axes={row_axes!r}; expected 1 to {array.ndim - 1}, or None.")
    if not np.isfinite(array).all():
        raise InputError("update_spectrum: an entry is infinite or not a number; expected a finite update.")
    matrix = array.reshape(int(np.prod(array.shape[:rows])), -1)
    # Squares of entries below 1e-154 would be zero.
    scale = np.abs(matrix).max() or 1.0
    matrix = matrix / scale
    gram = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    return Spectrum(scale * np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[::-1], 0.0)))
