"""The formulas of LARS and LAMB as pure functions on tensors of any backend.

Every function takes and returns float32 tensors (float64 for float64 variables) and keeps no
state; the optimizers hold the variables. `weight` is one layer's variable, `gradient` its gradient
after reduction and clipping. `cpu_kernels.py` has the same updates through TensorFlow's in-place
kernels; tests hold the two together.

Sources: LARS, You et al. 2017, arXiv:1708.03888 (Algorithm 1); LAMB, You et al. 2020,
arXiv:1904.00962 (Algorithm 2).
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


def lars(
    gradient: Tensor,
    weight: Tensor,
    velocity: Tensor,
    *,
    learning_rate: Tensor | float,
    momentum: float,
    weight_decay: Tensor | float,
    eeta: float,
    epsilon: float,
    nesterov: bool,
    adapt: bool,
    form: str,
) -> tuple[Tensor, ...]:
    """One LARS step.

    Forms (the names of what each reproduces):
      paper: ratio = eeta |w| / (|g| + wd |w| + eps); learning rate inside the momentum. MLPerf's.
      tfm: ratio = eeta |w| / (|g + wd w| + eps); learning rate inside. tf-models-official, optax.
      momentum_ratio: ratio = eeta |w| / (|update| + eps) of the momentum's update; learning rate
        outside. tf-models-official with `classic_momentum=False`.

    Args:
      velocity: the momentum, with the sign of the step that is added to the weight, as Keras' SGD
        keeps it.
      learning_rate, weight_decay: scalars of the weight's dtype, or Python numbers.
      adapt: False leaves the trust ratio at 1 (a layer excluded from layer adaptation).

    Returns:
      (weight, velocity, ratio) after the step.
    """
    decayed = gradient + weight_decay * weight
    ratio = of(weight).ones([], weight.dtype)
    if form == "momentum_ratio":
        velocity = momentum * velocity - decayed
        update = momentum * velocity - decayed if nesterov else velocity
        if adapt:
            weight_norm, update_norm = norm(weight), norm(update)
            ratio = trust_ratio(eeta * weight_norm, update_norm + epsilon, weight_norm, update_norm)
        return weight + learning_rate * ratio * update, velocity, ratio

    if adapt:
        weight_norm, gradient_norm = norm(weight), norm(gradient if form == "paper" else decayed)
        ratio = lars_ratio(weight_norm, gradient_norm, weight_decay, eeta, epsilon, form)
    step = learning_rate * ratio * decayed
    velocity = momentum * velocity - step
    update = momentum * velocity - step if nesterov else velocity
    return weight + update, velocity, ratio


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


def lamb(
    gradient: Tensor,
    weight: Tensor,
    m: Tensor,
    v: Tensor,
    *,
    learning_rate: Tensor | float,
    step: Tensor,
    beta_1: float,
    beta_2: float,
    epsilon: float,
    weight_decay: Tensor | float,
    bias_correction: bool,
    adapt: bool,
    bounds: Bounds | None = None,
) -> tuple[Tensor, ...]:
    """One LAMB step: an Adam direction plus decay, rescaled to the norm of the weights.

    Args:
      m, v: first and second moment of the gradient.
      step: scalar of the weight's dtype, the number of this step, from 1.
      learning_rate, weight_decay: scalars of the weight's dtype, or Python numbers.
      adapt: False leaves the trust ratio at 1 (a layer excluded from layer adaptation).
      bounds: None, or (low, high) for the trust ratio; either may be None.

    Returns:
      (weight, m, v, ratio) after the step.
    """
    ops = of(weight)
    m = beta_1 * m + (1.0 - beta_1) * gradient
    v = beta_2 * v + (1.0 - beta_2) * ops.square(gradient)
    first, second = lamb_corrections(step, beta_1, beta_2, bias_correction)
    # divide_no_nan: with epsilon 0 an entry that never had a gradient is 0 / 0, and stays where it is.
    update = ops.divide_no_nan(m / first, ops.sqrt(v / second) + epsilon) + weight_decay * weight
    ratio = ops.ones([], weight.dtype)
    if adapt:
        weight_norm, update_norm = norm(weight), norm(update)
        ratio = trust_ratio(weight_norm, update_norm, weight_norm, update_norm, bounds)
    return weight - learning_rate * ratio * update, m, v, ratio


def adamw(
    gradient: Tensor,
    weight: Tensor,
    m: Tensor,
    v: Tensor,
    largest_v: Tensor | None = None,
    *,
    learning_rate: Tensor | float,
    step: Tensor,
    beta_1: float,
    beta_2: float,
    epsilon: float,
    weight_decay: Tensor | float,
) -> tuple[Tensor, ...]:
    """One step of Adam with decoupled weight decay, as Keras takes it: arXiv:1711.05101, Algorithm 2.

    Epsilon is added to the root of the second moment before its bias is corrected.

    Args:
      m, v: first and second moment of the gradient.
      largest_v: None; or, for AMSGrad, the largest second moment so far, which then is the divisor.
      step: scalar of the weight's dtype, the number of this step, from 1.
      learning_rate, weight_decay: scalars of the weight's dtype, or Python numbers.

    Returns:
      (weight, m, v) after the step, and largest_v where it is given.
    """
    ops = of(weight)
    m = beta_1 * m + (1.0 - beta_1) * gradient
    v = beta_2 * v + (1.0 - beta_2) * ops.square(gradient)
    first, second = lamb_corrections(step, beta_1, beta_2, True)
    largest = [] if largest_v is None else [ops.maximum(largest_v, v)]
    # divide_no_nan: with epsilon 0 an entry that never had a gradient is 0 / 0, and stays where it is.
    update = ops.divide_no_nan(m, ops.sqrt(largest[0] if largest else v) + epsilon)
    # Not in place: on PyTorch the tensor is the variable's own.
    weight = weight - learning_rate * weight_decay * weight
    return weight - learning_rate * ops.sqrt(second) / first * update, m, v, *largest
