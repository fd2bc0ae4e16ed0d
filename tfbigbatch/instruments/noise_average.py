"""The noise scale over several looks: exponential averages, and what their spread leaves open."""

import math
import statistics
import typing

import tensorflow as tf

from tfbigbatch.instruments import noise_scale as noise


class NoiseEstimate(typing.NamedTuple):
    """Averages of |G|^2 and tr(Sigma), their ratio in examples, and its confidence interval (NaN: not known yet)."""

    squared_norm: float
    trace: float
    noise_scale: float
    low: float
    high: float


class NoiseAverage(tf.Module):
    """Averages looks at |G|^2 and tr(Sigma), each by itself, and divides the averages.

    The interval is Fieller's, of the ratio of two weighted means, whose covariance is that of the
    looks: cov = sum(w^2) / (1 - sum(w^2)) times the weighted covariance of the looks, with the
    weights w of the exponential average. It takes the looks for independent and their means for
    normal: it is too narrow for the first few, and where every look is at the same examples.

    Put it in a checkpoint, and a resumed run goes on with the same averages.

    Args:
      decay: of the averages, in [0, 1); about 2 / (1 - decay) looks count.
      confidence: of the interval.
    """

    def __init__(self, decay=0.9, confidence=0.95):
        super().__init__(name="noise_average")
        self._decay = decay
        self._z = statistics.NormalDist().inv_cdf(0.5 + confidence / 2)
        self.looks = tf.Variable(0, dtype=tf.int64, trainable=False, name="looks")
        # Of |G|^2, tr(Sigma), and their products with themselves and each other; with the bias to 0.
        self.averages = tf.Variable(tf.zeros([5], tf.float64), trainable=False, name="averages")

    def add(self, squared_norm, trace):
        """Takes one more look, two finite floats."""
        values = (squared_norm, trace, squared_norm**2, squared_norm * trace, trace**2)
        averages = self.averages.numpy().tolist()
        self.averages.assign([noise.smoothed(average, value, self._decay) for average, value in zip(averages, values)])
        self.looks.assign_add(1)

    def estimate(self):
        """NoiseEstimate; NaN throughout before the first look."""
        count, decay = int(self.looks.numpy()), self._decay
        if not count:
            return NoiseEstimate(*[math.nan] * 5)
        averages = [noise.corrected(average, count, decay) for average in self.averages.numpy().tolist()]
        squared_norm, trace, *products = averages
        low = high = math.nan
        if count > 1 and decay > 0.0:
            means = (squared_norm**2, squared_norm * trace, trace**2)
            # The sum of the squared weights: 1 / looks that count.
            share = (1.0 - decay) * (1.0 + decay**count) / ((1.0 + decay) * (1.0 - decay**count))
            spread = [share / (1.0 - share) * (product - mean) for product, mean in zip(products, means)]
            low, high = noise.ratio_interval(trace, squared_norm, spread[::-1], self._z)
        return NoiseEstimate(squared_norm, trace, noise.noise_scale(squared_norm, trace), low, high)
