"""Has training blown up, and what peak follows from it."""

import math

# Near zero a factor says nothing: the best loss counts as no less than this part of the first.
_FLOOR = 0.01


def loss_blew_up(loss, *, best, first, factor):
    """True where a positive loss exceeds `factor` times the best so far, or is no longer finite.

    Args:
      best: the lowest loss so far; infinity before the first, NaN where the loss was lost already.
      first: the first loss; the best counts as at least a hundredth of it.
    """
    if math.isnan(best):
        return False
    return not math.isfinite(loss) or loss > factor * max(best, _FLOOR * first)


def best_loss(loss, *, best, blew_up):
    """The `best` of the next look. After a blow-up the run is where it is: only what begins there counts."""
    if not math.isfinite(loss):
        return math.nan
    return loss if blew_up or math.isnan(best) else min(best, loss)


def lowered_gain(gain, *, step, warmup_steps, safety):
    """The gain that makes the rate `safety` times what it is after `step` updates, on the rise or beyond."""
    return safety * min(gain, step / warmup_steps)


def largest_relative_update(optimizer):
    """The largest |change of w| / |w| over the adapted layers in the last update.

    Returns:
      float; None where the optimizer keeps no `layer_statistics`, or adapts no layer.
    """
    read = getattr(optimizer, "layer_statistics", None)
    try:
        rows = {} if read is None else read()
    except ValueError:  # It was made without layer_statistics=True.
        return None
    # A ratio of exactly 1 marks a layer that is left out, or has a norm of zero.
    ratios = [
        row.update_norm / row.weight_norm for row in rows.values() if row.trust_ratio != 1.0 and row.weight_norm > 0.0
    ]
    return max(ratios, default=None)
