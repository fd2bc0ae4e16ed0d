"""Detection of a blow-up of the training, and the lower peak learning rate after it."""

from __future__ import annotations

import math
from typing import Any

# A factor is meaningless near zero: the best loss counts as at least this fraction of the first.
_FLOOR = 0.01


def loss_blew_up(loss: float, *, best: float, first: float, factor: float) -> bool:
    """Whether a positive loss exceeds `factor` times the best so far, or is no longer finite.

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


def lowered_gain(gain: float, *, step: int, warmup_steps: int, safety: float) -> float:
    """The gain that multiplies the learning rate after `step` steps by `safety`, during the warm-up or later."""
    return safety * min(gain, step / warmup_steps)


def largest_relative_update(optimizer: Any) -> float | None:
    """The largest |change of w| / |w| over the adapted layers in the last step.

    None if the optimizer has no `layer_statistics`, or adapts no layer.
    """
    read = getattr(optimizer, "layer_statistics", None)
    try:
        rows = {} if read is None else read()
    except ValueError:  # It was made without layer_statistics=True.
        return None
    # A ratio of exactly 1 marks a layer that is excluded, or has a norm of zero.
    ratios = [
        row.update_norm / row.weight_norm for row in rows.values() if row.trust_ratio != 1.0 and row.weight_norm > 0.0
    ]
    return max(ratios, default=None)
