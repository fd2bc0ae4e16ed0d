"""The formulas of Muon as pure functions: orthogonalised momentum and the scale of its update.

A matrix X = U S V^T (its singular value decomposition) has the polar factor U V^T: the nearest matrix with orthonormal
rows or columns. Muon steps along the polar factor of the momentum, approximated by a few Newton-Schulz steps. Matrices
come in batches [k, rows, columns] of float32 or float64; a Keras kernel has its inputs in rows, its outputs in columns.

Sources: Muon, Jordan et al. 2024 (kellerjordan.github.io/posts/muon); its scale for Adam's learning rates, Liu et al.
2025, arXiv:2502.16982 (Moonlight), eq. 4; Polar Express, Amsel et al. 2025, arXiv:2505.16932, Algorithm 1; NorMuon, Li
et al. 2025, arXiv:2510.05491, Algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import tensorflow as tf

from tfbigbatch.optimizers import rules

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
# From this ratio of the sides on, iterating in the Gram matrix of the short one takes fewer flops.
_GRAM_RATIO = 2.0
# So many steps in one Gram matrix: rounding leaves it eigenvalues below zero, for a matrix of low rank, that each step
# makes larger; after ten steps they would be infinite.
_GRAM_STEPS = 5


def coefficients(name: str, steps: int) -> tuple[Coefficients, ...]:
    """The coefficients of each Newton-Schulz step, for 'quintic' or 'polar_express'."""
    if name == "quintic":
        return (QUINTIC,) * steps
    own = [(a / _SAFETY, b / _SAFETY**3, c / _SAFETY**5) for a, b, c in _POLAR_EXPRESS[:-1]]
    own.append(_POLAR_EXPRESS[-1])
    return tuple(own[min(step, len(own) - 1)] for step in range(steps))


def momentum_update(
    gradient: tf.Tensor, velocity: tf.Tensor, *, momentum: float, nesterov: bool
) -> tuple[tf.Tensor, tf.Tensor]:
    """Muon's momentum M = mu M + G; returns (what is orthogonalised, M): G + mu M with Nesterov, else M.

    Both are of any scale: orthogonalisation takes it out.
    """
    velocity = momentum * velocity + gradient
    return gradient + momentum * velocity if nesterov else velocity, velocity


def newton_schulz(
    matrices: tf.Tensor, steps_coefficients: Sequence[Coefficients], product_dtype: str = "float32"
) -> tf.Tensor:
    """The polar factors of a batch of matrices, approximately, by Newton-Schulz iteration.

    Where one side is at least twice the other, the iteration is of the short side's Gram matrix A and the product P of
    its steps, X <- X P at the end: the same polynomial of X, and the long side enters in two products only (in two for
    every five steps).

    Args:
      matrices: [k, rows, columns], of any scale. A zero matrix stays zero; one with a NaN or an infinity becomes NaN.
      steps_coefficients: (a, b, c) of each step; see `coefficients`.
      product_dtype: 'float32', or 'bfloat16' for products of bfloat16 numbers, summed in float32 where the processor
        does so; the Gram form keeps float32.

    Returns:
      [k, rows, columns] of the dtype of `matrices`.
    """
    rows, columns = matrices.shape[1:]
    x = _of_norm_one(matrices)
    tall = rows > columns
    if max(rows, columns) >= _GRAM_RATIO * min(rows, columns):
        for first in range(0, len(steps_coefficients), _GRAM_STEPS):
            gram = tf.matmul(x, x, transpose_a=True) if tall else tf.matmul(x, x, transpose_b=True)
            factor = _gram_iteration(gram, steps_coefficients[first : first + _GRAM_STEPS])
            x = tf.matmul(x, factor) if tall else tf.matmul(factor, x, transpose_a=True)
        return x
    if product_dtype == "bfloat16" and x.dtype == tf.float32:
        x = tf.cast(x, tf.bfloat16)
    for a, b, c in steps_coefficients:
        gram = tf.matmul(x, x, transpose_a=True) if tall else tf.matmul(x, x, transpose_b=True)
        polynomial = b * gram + c * tf.matmul(gram, gram)
        x = a * x + (tf.matmul(x, polynomial) if tall else tf.matmul(polynomial, x))
    return tf.cast(x, matrices.dtype)


def _of_norm_one(matrices: tf.Tensor) -> tf.Tensor:
    """Each matrix over its Frobenius norm, which bounds its singular values by 1."""
    # By the largest entry first: the square of 1e-30 is zero in float32, that of 1e30 infinite.
    largest = tf.reduce_max(tf.abs(matrices), axis=(1, 2), keepdims=True)
    scaled = tf.where(largest > 0.0, matrices / largest, matrices)
    norm = tf.sqrt(tf.reduce_sum(tf.square(scaled), axis=(1, 2), keepdims=True))
    return tf.where(norm > 0.0, scaled / norm, scaled)


def _gram_iteration(gram: tf.Tensor, steps_coefficients: Sequence[Coefficients]) -> tf.Tensor:
    """The product P of the steps' polynomials a I + b A + c A^2, with A <- Q A Q after each step Q."""
    product = identity = tf.eye(gram.shape[-1], batch_shape=[gram.shape[0]], dtype=gram.dtype)
    for index, (a, b, c) in enumerate(steps_coefficients):
        step = a * identity + b * gram + c * tf.matmul(gram, gram)
        product = step if index == 0 else tf.matmul(product, step)
        if index + 1 < len(steps_coefficients):
            gram = tf.matmul(step, tf.matmul(gram, step))
    return product


def flops(rows: int, columns: int, steps: int) -> float:
    """Floating-point operations of `newton_schulz` on one matrix, a multiplication and an addition being two."""
    short, long = sorted((rows, columns))
    if long >= _GRAM_RATIO * short:
        return 8.0 * steps * short**3 + math.ceil(steps / _GRAM_STEPS) * (4.0 * long * short**2 - 6.0 * short**3)
    return steps * (4.0 * long * short**2 + 2.0 * short**3)


def update_scale(scale: str, rows: int, columns: int) -> float:
    """What the orthogonalised matrix [rows, columns] is multiplied by.

    Scales:
      rms: 0.2 sqrt(max(rows, columns)): entries of a root mean square of 0.2, about that of Adam's update, so that
        Adam's learning rates and weight decay serve. Moonlight's.
      spectral: sqrt(columns / rows), outputs over inputs: a spectral norm that changes each output by about as much.
      trust_ratio: 1; the layer's trust ratio comes on top.
    """
    if scale == "rms":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(columns / rows) if scale == "spectral" else 1.0


def normalize_outputs(
    matrices: tf.Tensor, second_moment: tf.Tensor, *, beta: float, epsilon: float = 1e-8
) -> tuple[tf.Tensor, tf.Tensor]:
    """NorMuon: each output's column over the root of its second moment; the Frobenius norm stays that of before.

    The paper sets the root mean square of the update to 0.2, which is the same for singular values of 1 and the scale
    'rms'; with the norm kept, as in microsoft/dion, every scale can follow.

    Args:
      matrices: orthogonalised, [k, rows, columns]; columns are the layer's outputs.
      second_moment: [k, columns], the moving average of the columns' mean squares.
      beta: its decay.

    Returns:
      (matrices, second_moment) after the step.
    """
    second_moment = beta * second_moment + (1.0 - beta) * tf.reduce_mean(tf.square(matrices), axis=1)
    divided = matrices / (tf.sqrt(second_moment)[:, tf.newaxis] + epsilon)

    def norms(tensor: tf.Tensor) -> tf.Tensor:
        return tf.sqrt(tf.reduce_sum(tf.square(tensor), axis=(1, 2), keepdims=True))

    return divided * tf.math.divide_no_nan(norms(matrices), norms(divided)), second_moment


def muon(
    orthogonal: tf.Tensor,
    weight: tf.Tensor,
    *,
    learning_rate: tf.Tensor | float,
    weight_decay: tf.Tensor | float,
    scale: str,
    factor: float,
    adapt: bool,
) -> tuple[tf.Tensor, tf.Tensor]:
    """One Muon step of a layer: w <- w - lr (factor O + wd w), with a trust ratio for the scale 'trust_ratio'.

    Args:
      orthogonal: the orthogonalised momentum O, of the shape of `weight`.
      weight: the layer's variable.
      learning_rate, weight_decay: scalars of the weight's dtype, or Python numbers.
      scale: see `update_scale`. 'trust_ratio' steps by LAMB's |w| / |O + wd w|.
      factor: `update_scale` of the layer's matrices.
      adapt: False leaves the trust ratio at 1.

    Returns:
      (weight, ratio) after the step.
    """
    update = factor * orthogonal + weight_decay * weight
    ratio = tf.ones([], weight.dtype)
    if scale == "trust_ratio" and adapt:
        weight_norm, update_norm = rules.norm(weight), rules.norm(update)
        ratio = rules.trust_ratio(weight_norm, update_norm, weight_norm, update_norm)
    return weight - learning_rate * ratio * update, ratio
