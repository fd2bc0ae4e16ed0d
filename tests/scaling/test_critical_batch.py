"""The critical batch from branches, on a noisy quadratic with a known answer."""

import math

import numpy as np
import pytest

from tfbigbatch.scaling.critical_batch import critical_batch, isotonic

# A noisy quadratic (Zhang et al. 2019, arXiv:1907.04164): curvature h, noise variance c / B in each direction.
CURVATURE = 1.0 / np.arange(1, 51)
NOISE = 20 * CURVATURE
START = 1.0
EXAMPLES, SMALL, RATE = 8192, 8, 0.05
SIZES = [SMALL * 2**power for power in range(8)]


def expected_loss(batch_size):
    """After equal examples by SGD at the square-root rule's learning rate, exactly: E[w^2] of each direction."""
    rate = RATE * math.sqrt(batch_size / SMALL)
    squares = np.full(CURVATURE.shape, START)
    for _ in range(round(EXAMPLES / batch_size)):
        squares = (1 - rate * CURVATURE) ** 2 * squares + rate**2 * NOISE / batch_size
    return 0.5 * float(np.sum(CURVATURE * squares))


def sampled_loss(batch_size, seed):
    generator = np.random.default_rng([seed, batch_size])
    rate = RATE * math.sqrt(batch_size / SMALL)
    weights = np.full(CURVATURE.shape, math.sqrt(START))
    for _ in range(round(EXAMPLES / batch_size)):
        noise = generator.normal(size=weights.shape) * np.sqrt(NOISE / batch_size)
        weights -= rate * (CURVATURE * weights + noise)
    return 0.5 * float(np.sum(CURVATURE * weights**2))


def exact_critical_batch(tolerance):
    base = expected_loss(SMALL)
    fine = [size for size in range(SMALL, SIZES[-1] + 1, SMALL) if EXAMPLES % size == 0 or size in SIZES]
    return max(size for size in fine if expected_loss(size) - base <= tolerance)


@pytest.mark.parametrize("tolerance", [0.02, 0.05, 0.1])
def test_without_noise_it_is_the_largest_batch_within_the_tolerance(tolerance):
    found = critical_batch({size: [expected_loss(size)] for size in SIZES}, tolerance=tolerance)
    exact = exact_critical_batch(tolerance)
    assert exact <= found.estimate < 2 * exact
    # One seed says nothing about the spread.
    assert (found.low, found.high) == (SMALL, math.inf) and math.isnan(found.error)


@pytest.mark.parametrize("tolerance", [0.05, 0.1])
def test_with_noise_the_interval_holds_the_answer_about_as_often_as_it_says(tolerance):
    exact = critical_batch({size: [expected_loss(size)] for size in SIZES}, tolerance=tolerance).estimate
    found = [
        critical_batch(
            {size: [sampled_loss(size, 100 * trial + seed) for seed in range(4)] for size in SIZES}, tolerance=tolerance
        )
        for trial in range(40)
    ]
    assert np.mean([each.low <= exact <= each.high for each in found]) >= 0.8
    assert exact / 2 < np.median([each.estimate for each in found]) < 2 * exact
    assert all(each.low <= each.estimate <= each.high for each in found)


def test_bounds_of_the_range():
    assert critical_batch({8: [1.0, 1.1], 16: [1.0, 1.1]}, tolerance=0.1).estimate == math.inf
    diverged = critical_batch({8: [1.0, 1.0], 16: [1.0, math.nan], 32: [1.0, 1.0]}, tolerance=0.1)
    assert diverged.estimate == diverged.high == 8 and diverged.excess[16] == math.inf
    halfway = critical_batch({8: [1.0], 32: [1.2]}, tolerance=0.1)
    assert halfway.estimate == pytest.approx(16)


def test_isotonic_pools_what_falls():
    assert isotonic([0.0, 3.0, 1.0, 2.0, 5.0]) == [0.0, 2.0, 2.0, 2.0, 5.0]
    assert isotonic([1.0, 0.0]) == [0.5, 0.5]


@pytest.mark.parametrize(
    "losses, tolerance, message",
    [
        ({8: [1.0]}, 0.1, "two batch sizes or more"),
        ({8: [1.0], 16: [1.0, 2.0]}, 0.1, "with the same seeds"),
        ({8: [math.inf], 16: [1.0]}, 0.1, "the smallest batch, 8"),
        ({8: [1.0], 16: [1.0]}, 0.0, "tolerance"),
        ({8: 1.0, 16: 1.0}, 0.1, "expected numbers by batch size"),
        ({8: ["high"], 16: [1.0]}, 0.1, "expected numbers by batch size"),
    ],
)
def test_what_cannot_be_used(losses, tolerance, message):
    with pytest.raises(ValueError, match=message):
        critical_batch(losses, tolerance=tolerance)
