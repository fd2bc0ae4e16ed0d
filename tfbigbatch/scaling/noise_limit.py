"""The rate that the gradient's noise allows at a batch size, seen from a recipe tuned at another."""

import math


def rate_growth(noise_scale, *, tuned_batch, batch):
    """How many times the tuned rate is the best rate at `batch`.

    McCandlish et al. 2018 (arXiv:1812.06162), equation 2.6: the best rate at a batch of B is
    e_max / (1 + N / B) with the noise scale N. Of two batches:

        (1 + N / tuned_batch) / (1 + N / batch)

    Much noise gives the linear rule, none gives 1.

    Args:
      noise_scale: N, in examples; infinity is the limit of much noise.
      tuned_batch, batch: in examples.
    """
    if math.isinf(noise_scale):
        return batch / tuned_batch
    return (1.0 + noise_scale / tuned_batch) / (1.0 + noise_scale / batch)


def noise_gain(noise_scale, recipe, *, batch_size, peak, highest=1.0):
    """The gain that brings a planned peak to what the noise allows, at most `highest`.

    A peak by the square-root rule (LEGW's) is kept exactly where the noise scale is at least the
    geometric mean of the two batch sizes.

    Args:
      recipe: the tuned Recipe.
      batch_size: of the run, in examples.
      peak: the planned peak rate.
    """
    allowed = recipe.learning_rate * rate_growth(noise_scale, tuned_batch=recipe.batch_size, batch=batch_size)
    return min(highest, allowed / peak)
