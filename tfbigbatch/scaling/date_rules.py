"""The rules of DATE: the learning rate that the gradient noise scale allows, and the detection of a blow-up."""

from __future__ import annotations

import math
from typing import Any

from tfbigbatch.instruments.instrument import layer_rows
from tfbigbatch.scaling.recipe import Recipe

# A factor is meaningless near zero: the best loss counts as at least this fraction of the first.
_FLOOR = 0.01


def rate_growth(noise_scale: float, *, tuned_batch: float, batch: float) -> float:
    """The ratio of the best learning rate at `batch` to the tuned one.

    McCandlish et al. 2018 (arXiv:1812.06162), equation 2.6: the best learning rate at batch B is
    e_max / (1 + N / B) with the noise scale N. The ratio for two batches:

        (1 + N / tuned_batch) / (1 + N / batch)

    With much noise this is the linear rule, without noise it is 1.

    Args:
      noise_scale: N, in examples, 0 or more; may be infinite.
      tuned_batch, batch: in examples.
    """
    if math.isinf(noise_scale):
        return batch / tuned_batch
    return (1.0 + noise_scale / tuned_batch) / (1.0 + noise_scale / batch)


def noise_gain(noise_scale: float, recipe: Recipe, *, batch_size: float, peak: float, highest: float = 1.0) -> float:
    """The factor from the planned `peak` learning rate to the one that the noise allows, at most `highest`.

    A peak by the square-root rule (LEGW's) is kept if the noise scale is at least the geometric mean of the two batch
    sizes: the tuned recipe's and `batch_size`, of the run, in examples.
    """
    allowed = recipe.learning_rate * rate_growth(noise_scale, tuned_batch=recipe.batch_size, batch=batch_size)
    return min(highest, allowed / peak)


def loss_blew_up(loss: float, *, best: float, first: float, factor: float) -> bool:
    """True if a positive loss exceeds `factor` times the best so far, or is no longer finite.

    Args:
      best: the lowest loss so far; infinity before the first, NaN if the loss was not finite before.
      first: the first loss; the best counts as at least a hundredth of it.
    """
    if math.isnan(best):
        return False
    return not math.isfinite(loss) or loss > factor * max(best, _FLOOR * first)


def best_loss(loss: float, *, best: float, blew_up: bool) -> float:
    """The `best` for the next measurement. After a blow-up only later losses count."""
    if not math.isfinite(loss):
        return math.nan
    return loss if blew_up or math.isnan(best) else min(best, loss)


def largest_relative_update(optimizer: Any) -> float | None:
    """The largest |change of w| / |w| over the adapted layers in the last step.

    None if the optimizer has no `layer_statistics`, or adapts no layer.
    """
    # A ratio of exactly 1 marks a layer that is excluded, or has a norm of zero.
    ratios = [
        row.update_norm / row.weight_norm
        for row in layer_rows(optimizer).values()
        if row.trust_ratio != 1.0 and row.weight_norm > 0.0
    ]
    return max(ratios, default=None)
