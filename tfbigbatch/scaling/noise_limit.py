"""The learning rate that the gradient noise scale allows at a batch size, given a recipe tuned at another."""

from __future__ import annotations

import math

from tfbigbatch.scaling.recipe import Recipe
from tfbigbatch.utils import arguments


def rate_growth(noise_scale: float, *, tuned_batch: float, batch: float) -> float:
    """The ratio of the best learning rate at `batch` to the tuned one.

    McCandlish et al. 2018 (arXiv:1812.06162), equation 2.6: the best learning rate at batch B is
    e_max / (1 + N / B) with the noise scale N. The ratio for two batches:

        (1 + N / tuned_batch) / (1 + N / batch)

    With much noise this is the linear rule, without noise it is 1.

    Args:
      noise_scale: N, in examples, 0 or more; may be infinite.
      tuned_batch, batch: in examples.

    Raises:
      ValueError: a number is out of range.
    """
    tuned_batch = arguments.number("tuned_batch", tuned_batch, above=0)
    batch = arguments.number("batch", batch, above=0)
    if noise_scale != math.inf:
        noise_scale = arguments.number("noise_scale", noise_scale, least=0)
    if math.isinf(noise_scale):
        return batch / tuned_batch
    return (1.0 + noise_scale / tuned_batch) / (1.0 + noise_scale / batch)


def noise_gain(noise_scale: float, recipe: Recipe, *, batch_size: float, peak: float, highest: float = 1.0) -> float:
    """The factor from the planned `peak` learning rate to the one that the noise allows, at most `highest`.

    A peak by the square-root rule (LEGW's) is kept if the noise scale is at least the geometric mean of the two batch
    sizes: the tuned recipe's and `batch_size`, of the run, in examples.

    Raises:
      ValueError: a number is out of range.
    """
    peak = arguments.number("peak", peak, above=0)
    allowed = recipe.learning_rate * rate_growth(noise_scale, tuned_batch=recipe.batch_size, batch=batch_size)
    return min(highest, allowed / peak)
