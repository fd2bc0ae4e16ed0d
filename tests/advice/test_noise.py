"""The noise scale of a short run in windows, and what is expected of the rest of the run."""

import math

import numpy as np
import pytest

from tfbigbatch.advice import noise
from tfbigbatch.advice.noise import Moments, NoisePoint
from tfbigbatch.errors import InputError


def made_moments(scale_at, steps=400, every=4, error=0.1, seed=0):
    random = np.random.RandomState(seed)
    factors = 1 + error * random.normal(size=[steps // every, 2])
    return [
        Moments(step, one, other * scale_at(step)) for step, (one, other) in zip(range(every, steps, every), factors)
    ]


def test_windows_halve_towards_the_start_and_hold_the_truth():
    points = noise.points(made_moments(lambda step: 50.0))
    assert [point.last_step for point in points] == [48, 96, 196, 396]
    assert all(after.first_step > before.last_step for before, after in zip(points, points[1:]))
    last = points[-1]
    assert last.low < 50 < last.high and last.noise_scale == pytest.approx(50, rel=0.1)


def test_growth_is_the_power_of_the_steps():
    grown = noise.points(made_moments(lambda step: 3.0 * step**0.5))
    assert noise.growth(grown) == pytest.approx(0.5, abs=0.15)
    assert noise.growth(noise.points(made_moments(lambda step: 1000.0 / step))) == 0.0
    assert noise.growth(grown[:2]) is None


def test_the_critical_batch_of_a_constant_noise_scale_is_that_scale():
    measured = [NoisePoint(1, 100, 64.0, 64.0, 64.0)]
    run = noise.over_the_run(measured, 100, 32)
    assert run.value == pytest.approx(64.0) and run.low == pytest.approx(64.0) and run.high == pytest.approx(64.0)


def test_a_growing_noise_scale_counts_by_the_noiseless_steps_it_leaves():
    """E_min / S_min of two halves, by hand: N = 32 and then 96 at batch 32."""
    steps = [(100.0, 32.0), (100.0, 96.0)]
    fewest = sum(length / (1 + scale / 32) for length, scale in steps)
    most = sum(length * scale / (1 + scale / 32) for length, scale in steps)
    measured = [NoisePoint(1, 100, 32.0, 32.0, 32.0), NoisePoint(101, 200, 96.0, 96.0, 96.0)]
    assert noise.over_the_run(measured, 200, 32).value == pytest.approx(most / fewest, rel=0.05)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_gradients_that_are_not_finite_are_not_measurable(value):
    with pytest.raises(InputError, match="not measurable: 0 of 20 measurements of the gradient are finite"):
        noise.points([Moments(step, value, 1.0) for step in range(20)])


def test_a_gradient_without_a_mean_is_not_measurable():
    random = np.random.RandomState(0)
    moments = [Moments(step, value, abs(value)) for step, value in enumerate(random.normal(size=20) - 1.0)]
    with pytest.raises(InputError, match="not measurable: .* cannot be told from its noise"):
        noise.points(moments)
