"""The formulas of Shampoo as pure functions: statistics, preconditioned direction, grafting and momentum.

For a matrix G the statistics are moving averages L of G G^T and R of G^T G, and the direction is L^(-1/4) G R^(-1/4).
A tensor has such a matrix for each axis, a vector has one. Blocks of a variable come as [k, ...], the statistics and
roots of an axis of n entries as [k, n, n], in float32 or float64. `blocks` cuts a variable, `matrix_roots` has the
roots.

Sources: Gupta et al. 2018, arXiv:1802.09568 (Algorithms 1 and 2); Anil et al. 2020, arXiv:2002.09018 (blocks, grafts,
moving averages, damping); grafting: Agarwal et al. 2020, arXiv:2002.11803. The grafts 'lars' and 'lamb' are ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfbigbatch.optimizers import rules
from tfbigbatch.optimizers.ops import Tensor, of


def update_statistics(statistics: Sequence[Tensor], blocks: Tensor, *, beta_2: float) -> list[Tensor]:
    """The statistics S of each axis after a gradient: S <- beta_2 S + (1 - beta_2) A A^T, A = [n, the other axes]."""
    return [
        beta_2 * old + (1.0 - beta_2) * _products_over_other_axes(blocks, axis) for axis, old in enumerate(statistics)
    ]


def _products_over_other_axes(blocks: Tensor, axis: int) -> Tensor:
    letters = "abcdefgh"[: len(blocks.shape) - 1]
    return of(blocks).einsum(f"k{letters},k{letters.replace(letters[axis], 'z')}->k{letters[axis]}z", blocks, blocks)


def precondition(blocks: Tensor, roots: Sequence[Tensor]) -> Tensor:
    """Each axis of the blocks times its root: L^(-1/p) G R^(-1/p) for matrices."""
    letters = "abcdefgh"[: len(blocks.shape) - 1]
    for letter, root in zip(letters, roots):
        blocks = of(blocks).einsum(f"kz{letter},k{letters}->k{letters.replace(letter, 'z')}", root, blocks)
    return blocks


def graft_update(
    graft: str,
    gradient: Tensor,
    second_moment: Tensor | None,
    *,
    step: Tensor,
    beta_2: float,
    epsilon: float,
) -> tuple[Tensor, Tensor | None]:
    """The update of the method that Shampoo is grafted to, before momentum and decay; and its second moment.

    Grafts:
      sgd, lars: the gradient.
      rmsprop: g / (sqrt(v) + epsilon), v being the moving average of g^2.
      lamb: the same, with v / (1 - beta_2^step), as Adam's.
    """
    if second_moment is None:
        return gradient, None
    ops = of(gradient)
    second_moment = beta_2 * second_moment + (1.0 - beta_2) * ops.square(gradient)
    corrected = second_moment
    if graft == "lamb":
        corrected = corrected / rules.moment_correction(step, beta_2)
    return ops.divide_no_nan(gradient, ops.sqrt(corrected) + epsilon), second_moment


def graft_norm(direction: Tensor, update: Tensor) -> Tensor:
    """The direction at the norm of the graft's update: D |g| / |D|."""
    return direction * of(direction).divide_no_nan(rules.norm(update), rules.norm(direction))


def momentum_step(
    graft: str,
    update: Tensor,
    weight: Tensor,
    momentum: Tensor,
    *,
    step: Tensor,
    learning_rate: Tensor | float,
    weight_decay: Tensor | float,
    beta_1: float,
    nesterov: bool,
    eeta: float,
    adapt: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Decay, trust ratio, momentum and weights, from an update U at the norm of the graft's.

    Grafts:
      sgd, rmsprop: M = beta_1 M + U + wd w; w -= lr M.
      lars: M = beta_1 M + r (U + wd w), r = eeta |w| / (|U| + wd |w|); w -= lr M. LARS's trust ratio.
      lamb: M = beta_1 M + (1 - beta_1) U; w -= lr r (M' + wd w), r = |w| / |M' + wd w|, M' = M / (1 - beta_1^step).
        LAMB's trust ratio.

    Args:
      momentum: M, of the weight's shape.
      step: scalar of the weight's dtype, the number of this step, from 1.
      learning_rate, weight_decay: scalars of the weight's dtype, or Python numbers.
      nesterov: in place of M the step takes its next value for the same update.
      eeta: LARS's trust coefficient.
      adapt: False leaves the trust ratio at 1 (a layer excluded from layer adaptation).

    Returns:
      (weight, momentum, ratio) after the step.
    """
    ratio = of(weight).ones([], weight.dtype)
    if graft == "lamb":
        momentum = beta_1 * momentum + (1.0 - beta_1) * update
        ahead = beta_1 * momentum + (1.0 - beta_1) * update if nesterov else momentum
        corrected = ahead / rules.moment_correction(step, beta_1)
        decayed = corrected + weight_decay * weight
        if adapt:
            weight_norm, update_norm = rules.norm(weight), rules.norm(decayed)
            ratio = rules.trust_ratio(weight_norm, update_norm, weight_norm, update_norm)
        return weight - learning_rate * ratio * decayed, momentum, ratio

    if graft == "lars" and adapt:
        ratio = rules.lars_ratio(rules.norm(weight), rules.norm(update), weight_decay, eeta, 0.0, form="paper")
    decayed = ratio * (update + weight_decay * weight)
    momentum = beta_1 * momentum + decayed
    ahead = decayed + beta_1 * momentum if nesterov else momentum
    return weight - learning_rate * ahead, momentum, ratio
