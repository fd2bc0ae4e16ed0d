"""The singular values of optimizer updates: in how many directions a step changes a layer.

For a matrix with the singular values s_1 >= s_2 >= ...:

    stable rank    = sum s_i^2 / s_1^2                       (Rudelson and Vershynin 2007)
    effective rank = exp(-sum p_i log p_i), p_i = s_i / sum s    (Roy and Vetterli 2007)

Both are 1 for an outer product of two vectors, and the length of the short side where all s_i are equal, as in the
polar factor that Muon steps along.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tfbigbatch.errors import InputError


class Spectrum(NamedTuple):
    """The singular values of a matrix, float64 [short side] and descending, and its ranks: 0 of a zero matrix."""

    singular_values: np.ndarray
    stable_rank: float
    effective_rank: float


def update_spectrum(update: Any) -> Spectrum:
    """The spectrum of a variable's update, or of any tensor read as a matrix whose columns are its last axis.

    Computed in float64 from the Gram matrix of the short side: singular values are right to 1e-8 of the largest.

    Args:
      update: of two axes or more, such as a kernel [in, out] or a convolution [h, w, in, out].

    Raises:
      ValueError: there are less than two axes, or an entry is not finite.
    """
    array = np.asarray(update, np.float64)
    if array.ndim < 2 or not array.size:
        raise InputError(f"update_spectrum: an array of shape {array.shape}; expected two axes or more, none empty.")
    if not np.isfinite(array).all():
        raise InputError("update_spectrum: an entry is infinite or not a number; expected a finite update.")
    # Squares of entries below 1e-154 would be zero.
    scale = np.abs(array).max() or 1.0
    matrix = array.reshape(-1, array.shape[-1]) / scale
    gram = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    values = scale * np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[::-1], 0.0))
    if not values[0] > 0.0:
        return Spectrum(values, 0.0, 0.0)
    shares = values[values > 0.0] / values.sum()
    entropy = -np.sum(shares * np.log(shares))
    return Spectrum(values, float(np.sum((values / values[0]) ** 2)), float(np.exp(entropy)))
