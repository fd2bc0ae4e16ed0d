import math

import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.instruments import noise_scale as noise


def test_the_estimates_are_unbiased_though_the_large_batch_is_made_of_the_small_ones():
    """Gradients of known mean and covariance: the mean over many probes is the truth within its error."""
    random = np.random.RandomState(0)
    dimension, count, examples, probes = 5, 4, 3, 40_000
    mean = np.linspace(0.1, 0.5, dimension)
    spread = np.linspace(0.5, 2.0, dimension)
    per_example = mean + spread * random.normal(size=(probes, count, examples, dimension))
    small = per_example.mean(axis=2)
    small_norms = (small**2).sum(-1).mean(-1)
    large_norms = (small.mean(axis=1) ** 2).sum(-1)
    estimates = noise.unbiased_moments(small_norms, large_norms, small_batch=examples, large_batch=count * examples)
    for estimate, truth in zip(estimates, ((mean**2).sum(), (spread**2).sum())):
        error = estimate.std() / math.sqrt(probes)
        assert abs(estimate.mean() - truth) < 4 * error < 0.05 * truth


def test_the_scale_is_the_ratio_with_its_limits():
    assert noise.noise_scale(2.0, 6.0) == 3.0
    assert noise.noise_scale(-1.0, 6.0) == noise.noise_scale(0.0, 6.0) == math.inf
    assert noise.noise_scale(2.0, -1.0) == noise.noise_scale(-1.0, -1.0) == 0.0


@pytest.mark.parametrize("numerator, denominator", [(5.0, 2.0), (5.0, 0.1), (0.1, 2.0), (0.1, 0.1), (5.0, -1.0)])
def test_the_interval_holds_what_is_within_z_standard_errors(numerator, denominator):
    covariance, z = (0.9, 0.2, 0.3), 1.96
    low, high = noise.ratio_interval(numerator, denominator, covariance, z)
    ratios = np.concatenate([np.linspace(0.0, 50.0, 5001), [1e3, 1e6]])
    errors = np.sqrt(covariance[0] - 2 * ratios * covariance[1] + ratios**2 * covariance[2])
    within = np.abs(numerator - ratios * denominator) <= z * errors
    # Never too narrow: everything within is between the ends.
    assert ((ratios[within] >= low - 1e-9) & (ratios[within] <= high + 1e-9)).all()
    if math.isfinite(high):
        np.testing.assert_allclose([ratios[within].min(), ratios[within].max()], [low, high], atol=0.02)
    if denominator >= 2.0:
        assert math.isfinite(high) and low <= numerator / denominator <= high


def test_the_averages_are_divided_and_the_interval_holds_the_truth():
    """Gradients of known mean and covariance: 95% intervals hold the true scale about as often as they say."""
    random = np.random.RandomState(0)
    runs, looks, count, examples, dimension = 120, 25, 4, 3, 5
    mean, spread = np.linspace(0.3, 0.9, dimension), np.linspace(0.5, 1.5, dimension)
    small = mean + spread * random.normal(size=(runs, looks, count, examples, dimension)).mean(axis=3)
    squared_norms, traces = noise.unbiased_moments(
        (small**2).sum(-1).mean(-1),
        (small.mean(axis=2) ** 2).sum(-1),
        small_batch=examples,
        large_batch=count * examples,
    )
    truth = (spread**2).sum() / (mean**2).sum()
    estimates = []
    for row in zip(squared_norms, traces):
        average = noise.NoiseAverage(decay=0.9)
        for look in zip(*row):
            average.add(*look)
        estimates.append(average.estimate())
    covered = [estimate.low <= truth <= estimate.high for estimate in estimates]
    assert np.mean(covered) > 0.88
    assert np.mean([estimate.noise_scale for estimate in estimates]) == pytest.approx(truth, rel=0.1)
    assert all(math.isfinite(estimate.high) for estimate in estimates)


def test_a_checkpoint_goes_on_with_the_averages(tmp_path):
    one, other = noise.NoiseAverage(), noise.NoiseAverage()
    for look in ((1.0, 2.0), (3.0, 2.5)):
        one.add(*look)
    tf.train.Checkpoint(noise=other).read(tf.train.Checkpoint(noise=one).write(str(tmp_path / "noise")))
    assert other.estimate() == one.estimate()
