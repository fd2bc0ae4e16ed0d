"""The parts that several rules share: norms, trust ratios and bias corrections, as pure functions of tensors.

Every function takes and returns float32 tensors (float64 for float64 variables) of any backend and keeps no state.
`weight` is one layer's variable, `gradient` its gradient after reduction and clipping. `lars`, `lamb`, `adamw`, `muon`
and `shampoo` have the steps; `cpu_kernels` has some of them through TensorFlow's in-place kernels, and tests hold the
two together.
"""

from __future__ import annotations

import math

from tfbigbatch.optimizers.ops import Tensor, of

Bounds = tuple[float | None, float | None]


def norm(tensor: Tensor) -> Tensor:
    """Euclidean norm of all entries, a scalar.

    The squares are summed in the tensor's own dtype: in float32 a norm above 1.8e19 is infinite,
    and entries below 1e-23 count as zero.
    """
    ops = of(tensor)
    return ops.sqrt(ops.reduce_sum(ops.square(tensor)))


def trust_ratio(
    numerator: Tensor,
    denominator: Tensor,
    weight_norm: Tensor,
    update_norm: Tensor,
    bounds: Bounds | None = None,
) -> Tensor:
    """`numerator / denominator`, or 1 where `weight_norm` or `update_norm` is zero.

    A layer that starts at zero (a bias, the last gamma of a residual block) would never move if
    its ratio were zero, and one with a zero update has no direction to scale: both are left to
    the plain learning rate.

    Args:
      bounds: None, or (low, high) for the ratio; either may be None.
    """
    ops = of(weight_norm)
    ratio = ops.divide_no_nan(numerator, denominator)
    low, high = bounds or (None, None)
    if low is not None:
        ratio = ops.maximum(ratio, low)
    if high is not None:
        ratio = ops.minimum(ratio, high)
    both = ops.logical_and(weight_norm > 0.0, update_norm > 0.0)
    return ops.where(both, ratio, ops.ones_like(ratio))


def lars_ratio(
    weight_norm: Tensor,
    gradient_norm: Tensor,
    weight_decay: Tensor | float,
    eeta: float,
    epsilon: float,
    form: str,
) -> Tensor:
    """LARS's trust ratio; `gradient_norm` is |g| for the form 'paper', |g + wd w| for 'tfm'."""
    denominator = gradient_norm + epsilon
    if form == "paper":
        denominator += weight_decay * weight_norm
    return trust_ratio(eeta * weight_norm, denominator, weight_norm, gradient_norm)


def lamb_corrections(step: Tensor, beta_1: float, beta_2: float, bias_correction: bool) -> tuple[Tensor, Tensor]:
    """Divisors of the two moments at `step` (from 1): 1 - beta^step, or 1 without correction."""
    if not bias_correction:
        return of(step).ones_like(step), of(step).ones_like(step)
    return moment_correction(step, beta_1), moment_correction(step, beta_2)


def moment_correction(step: Tensor, beta: float) -> Tensor:
    """1 - beta^step, the divisor of a moving average that began at zero; `step` counts from 1."""
    # By expm1: 1 - 0.999 is off by 1e-5 of itself in float32.
    ops = of(step)
    return -ops.expm1(step * math.log(beta)) if beta > 0.0 else ops.ones_like(step)
