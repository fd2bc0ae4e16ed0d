"""The gradient noise scale, from gradient norms at two batch sizes, and its average over measurements.

McCandlish et al. 2018, "An Empirical Model of Large-Batch Training" (arXiv:1812.06162), section 2.2
and appendix A. G is the gradient over all data, Sigma the covariance of one example's gradient; the
gradient of a batch of b examples has the expected squared norm |G|^2 + tr(Sigma) / b.
"""

from __future__ import annotations

import math
import statistics
import typing

import tensorflow as tf

# The quantile of the normal distribution for an interval of 95%.
_Z_95 = statistics.NormalDist().inv_cdf(0.975)


def unbiased_moments(
    small_squared_norm: float, large_squared_norm: float, *, small_batch: float, large_batch: float
) -> tuple[float, float]:
    """Unbiased estimates of |G|^2 and tr(Sigma), which can be negative.

        |G|^2     = (B |G_B|^2 - b |G_b|^2) / (B - b)
        tr(Sigma) = (|G_b|^2 - |G_B|^2) / (1/b - 1/B)

    Args:
      small_squared_norm: |G_b|^2, or its mean over several batches of b examples.
      large_squared_norm: |G_B|^2 of a batch of B examples, possibly the union of the small ones.
      small_batch, large_batch: b and B, in examples; 0 < b < B.

    Returns:
      (|G|^2, tr(Sigma)).
    """
    squared_norm = (large_batch * large_squared_norm - small_batch * small_squared_norm) / (large_batch - small_batch)
    trace = (small_squared_norm - large_squared_norm) / (1 / small_batch - 1 / large_batch)
    return squared_norm, trace


def noise_scale(squared_norm: float, trace: float) -> float:
    """tr(Sigma) / |G|^2, in examples: the paper's "simple" noise scale (equation 2.9).

    A ratio of noisy estimates is biased: average each first, then divide.

    Returns:
      0 or more; infinity if |G|^2 is estimated at 0 or below, 0 if tr(Sigma) is.
    """
    if trace <= 0.0:
        return 0.0
    return trace / squared_norm if squared_norm > 0.0 else math.inf


def smoothed(average: float, value: float, decay: float) -> float:
    """The exponential average after one more value; it starts at 0, see `corrected`."""
    return decay * average + (1.0 - decay) * value


def corrected(average: float, count: int, decay: float) -> float:
    """An exponential average over `count` values, corrected for its start at 0."""
    return average / (1.0 - decay**count)


def ratio_interval(
    numerator: float, denominator: float, covariance: tuple[float, float, float], z: float
) -> tuple[float, float]:
    """Fieller's confidence interval of the ratio of two non-negative means.

    All R for which numerator - R denominator is within z of its standard errors of 0. Unlike a standard error of the
    ratio it is valid for an uncertain denominator: it then has no upper end.

    Args:
      numerator, denominator: the means.
      covariance: (variance of the numerator, covariance, variance of the denominator) of the means.
      z: quantile of the normal distribution, 1.96 for 95%.

    Returns:
      (low, high), 0 or more; high may be infinity.
    """
    of_numerator, of_both, of_denominator = covariance
    # a R^2 - 2 b R + c <= 0
    a = denominator**2 - z**2 * of_denominator
    b = numerator * denominator - z**2 * of_both
    c = numerator**2 - z**2 * of_numerator
    root = math.sqrt(max(b * b - a * c, 0.0))
    if a > 0.0:
        return max((b - root) / a, 0.0), max((b + root) / a, 0.0)
    if c > 0.0 and b + root > 0.0:
        return c / (b + root), math.inf
    return 0.0, math.inf


class NoiseEstimate(typing.NamedTuple):
    """Averages of |G|^2 and tr(Sigma), their ratio in examples, and its 95% interval (NaN if unknown)."""

    squared_norm: float
    trace: float
    noise_scale: float
    low: float
    high: float


class NoiseAverage(tf.Module):
    """Exponential moving averages of |G|^2 and tr(Sigma), and the ratio of the averages.

    The interval of 95% is Fieller's for the ratio of two weighted means, with the covariance
    sum(w^2) / (1 - sum(w^2)) * (weighted covariance of the measurements) and the weights w of the exponential average.
    It assumes independent measurements and normal means: it is too narrow for the first few, and if all measurements
    use the same examples.

    Put it in a checkpoint to resume the averages.

    Args:
      decay: EMA decay in [0, 1); about 2 / (1 - decay) measurements count.
    """

    def __init__(self, decay: float = 0.9) -> None:
        super().__init__(name="noise_average")
        self._decay = decay
        # The number of measurements; the attribute's name is in checkpoints.
        self.looks = tf.Variable(0, dtype=tf.int64, trainable=False, name="looks")
        # Of |G|^2, tr(Sigma), their squares and product; biased to 0, see `corrected`.
        self.averages = tf.Variable(tf.zeros([5], tf.float64), trainable=False, name="averages")

    def add(self, squared_norm: float, trace: float) -> None:
        """Adds one measurement of |G|^2 and tr(Sigma), both finite."""
        values = (squared_norm, trace, squared_norm**2, squared_norm * trace, trace**2)
        averages = self.averages.numpy().tolist()
        self.averages.assign([smoothed(average, value, self._decay) for average, value in zip(averages, values)])
        self.looks.assign_add(1)

    def estimate(self) -> NoiseEstimate:
        """The current estimate; all NaN before the first measurement."""
        count, decay = int(self.looks.numpy()), self._decay
        if not count:
            return NoiseEstimate(*[math.nan] * 5)
        averages = [corrected(average, count, decay) for average in self.averages.numpy().tolist()]
        squared_norm, trace, *products = averages
        low = high = math.nan
        if count > 1 and decay > 0.0:
            means = (squared_norm**2, squared_norm * trace, trace**2)
            # The sum of the squared weights.
            squares = (1.0 - decay) * (1.0 + decay**count) / ((1.0 + decay) * (1.0 - decay**count))
            spread = [squares / (1.0 - squares) * (product - mean) for product, mean in zip(products, means)]
            of_norm, of_both, of_trace = spread
            low, high = ratio_interval(trace, squared_norm, (of_trace, of_both, of_norm), _Z_95)
        return NoiseEstimate(squared_norm, trace, noise_scale(squared_norm, trace), low, high)
