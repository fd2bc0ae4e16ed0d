import math

import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.instruments.noise_average import NoiseAverage
from tfbigbatch.instruments.noise_scale import unbiased_moments


def test_the_averages_are_divided_and_the_interval_holds_the_truth():
    """Gradients of known mean and covariance: 95% intervals hold the true scale about as often as they say."""
    random = np.random.RandomState(0)
    runs, looks, count, examples, dimension = 120, 25, 4, 3, 5
    mean, spread = np.linspace(0.3, 0.9, dimension), np.linspace(0.5, 1.5, dimension)
    small = mean + spread * random.normal(size=(runs, looks, count, examples, dimension)).mean(axis=3)
    squared_norms, traces = unbiased_moments(
        (small**2).sum(-1).mean(-1),
        (small.mean(axis=2) ** 2).sum(-1),
        small_batch=examples,
        large_batch=count * examples,
    )
    truth = (spread**2).sum() / (mean**2).sum()
    estimates = []
    for row in zip(squared_norms, traces):
        average = NoiseAverage(decay=0.9)
        for look in zip(*row):
            average.add(*look)
        estimates.append(average.estimate())
    covered = [estimate.low <= truth <= estimate.high for estimate in estimates]
    assert np.mean(covered) > 0.88
    assert np.mean([estimate.noise_scale for estimate in estimates]) == pytest.approx(truth, rel=0.1)
    assert all(math.isfinite(estimate.high) for estimate in estimates)


def test_the_weights_of_the_interval_are_those_of_the_averages():
    looks = [(1.0, 4.0), (2.0, 3.0), (4.0, 5.0)]
    average = NoiseAverage(decay=0.5)
    for look in looks:
        average.add(*look)
    weights = np.array([1, 2, 4]) / 7
    means = weights @ np.array(looks)
    estimate = average.estimate()
    np.testing.assert_allclose(estimate[:2], means)
    share = (weights**2).sum()
    covariance = share / (1 - share) * np.cov(np.array(looks).T, aweights=weights, bias=True)
    ratio = estimate.low
    variance = covariance[1, 1] - 2 * ratio * covariance[0, 1] + ratio**2 * covariance[0, 0]
    # Fieller: at its ends the difference is z of its standard errors.
    assert abs(means[1] - ratio * means[0]) == pytest.approx(1.959964 * math.sqrt(variance))


def test_one_look_has_no_interval_and_none_no_scale():
    average = NoiseAverage()
    assert all(math.isnan(value) for value in average.estimate())
    average.add(2.0, 6.0)
    assert average.estimate()[:3] == pytest.approx((2.0, 6.0, 3.0)) and math.isnan(average.estimate().low)


def test_a_checkpoint_goes_on_with_the_averages(tmp_path):
    one, other = NoiseAverage(), NoiseAverage()
    for look in ((1.0, 2.0), (3.0, 2.5)):
        one.add(*look)
    tf.train.Checkpoint(noise=other).read(tf.train.Checkpoint(noise=one).write(str(tmp_path / "noise")))
    assert other.estimate() == one.estimate()
