"""Average of the noise scale over several measurements, with a confidence interval."""

from __future__ import annotations

import math
import statistics
import typing

import tensorflow as tf

from tfbigbatch.instruments import noise_scale as noise


class NoiseEstimate(typing.NamedTuple):
    """Averages of |G|^2 and tr(Sigma), their ratio in examples, and its confidence interval (NaN if unknown)."""

    squared_norm: float
    trace: float
    noise_scale: float
    low: float
    high: float


class NoiseAverage(tf.Module):
    """Exponential moving averages of |G|^2 and tr(Sigma), and the ratio of the averages.

    The interval is Fieller's for the ratio of two weighted means, with the covariance
    sum(w^2) / (1 - sum(w^2)) * (weighted covariance of the measurements) and the weights w of the exponential average.
    It assumes independent measurements and normal means: it is too narrow for the first few, and if all measurements
    use the same examples.

    Put it in a checkpoint to resume the averages.

    Args:
      decay: EMA decay in [0, 1); about 2 / (1 - decay) measurements count.
      confidence: of the interval.
    """

    def __init__(self, decay: float = 0.9, confidence: float = 0.95) -> None:
        super().__init__(name="noise_average")
        self._decay = decay
        self._z = statistics.NormalDist().inv_cdf(0.5 + confidence / 2)
        # The number of measurements; the attribute's name is in checkpoints.
        self.looks = tf.Variable(0, dtype=tf.int64, trainable=False, name="looks")
        # Of |G|^2, tr(Sigma), their squares and product; biased to 0, see `corrected`.
        self.averages = tf.Variable(tf.zeros([5], tf.float64), trainable=False, name="averages")

    def add(self, squared_norm: float, trace: float) -> None:
        """Adds one measurement of |G|^2 and tr(Sigma), both finite."""
        values = (squared_norm, trace, squared_norm**2, squared_norm * trace, trace**2)
        averages = self.averages.numpy().tolist()
        self.averages.assign([noise.smoothed(average, value, self._decay) for average, value in zip(averages, values)])
        self.looks.assign_add(1)

    def estimate(self) -> NoiseEstimate:
        """The current estimate; all NaN before the first measurement."""
        count, decay = int(self.looks.numpy()), self._decay
        if not count:
            return NoiseEstimate(*[math.nan] * 5)
        averages = [noise.corrected(average, count, decay) for average in self.averages.numpy().tolist()]
        squared_norm, trace, *products = averages
        low = high = math.nan
        if count > 1 and decay > 0.0:
            means = (squared_norm**2, squared_norm * trace, trace**2)
            # The sum of the squared weights.
            squares = (1.0 - decay) * (1.0 + decay**count) / ((1.0 + decay) * (1.0 - decay**count))
            spread = [squares / (1.0 - squares) * (product - mean) for product, mean in zip(products, means)]
            of_norm, of_both, of_trace = spread
            low, high = noise.ratio_interval(trace, squared_norm, (of_trace, of_both, of_norm), self._z)
        return NoiseEstimate(squared_norm, trace, noise.noise_scale(squared_norm, trace), low, high)
