"""The measurements of the advice: the noise scale, the rest of the run, and the times of steps."""

import math
import types
from contextlib import nullcontext

import numpy as np
import pytest

from tfbigbatch.errors import InputError
from tfbigbatch.tuning import measuring, noise
from tfbigbatch.tuning.noise import NoisePoint, Range


def made_moments(scale_at, steps=400, every=4, error=0.1, seed=0):
    random = np.random.RandomState(seed)
    factors = 1 + error * random.normal(size=[steps // every, 2])
    return [
        {"step": step, "squared_norm": one, "trace": other * scale_at(step)}
        for step, (one, other) in zip(range(every, steps, every), factors)
    ]


def test_the_noise_scale_is_that_of_the_first_quarter_and_of_the_last_half():
    points = noise.points(made_moments(lambda step: 50.0))
    assert [(point.first_step, point.last_step) for point in points] == [(4, 96), (200, 396)]
    for point in points:
        assert point.scale.low < 50 < point.scale.high and point.scale.value == pytest.approx(50, rel=0.1)


def test_growth_is_the_power_of_the_steps():
    grown = noise.points(made_moments(lambda step: 3.0 * step**0.5))
    assert noise.growth(grown) == pytest.approx(0.5, abs=0.1)
    assert noise.growth(noise.points(made_moments(lambda step: 1000.0 / step))) == 0.0
    assert noise.growth(grown[1:]) == 0.8


def point(first, last, *scale):
    return NoisePoint(first, last, Range(*scale))


def test_the_critical_batch_of_a_constant_noise_scale_is_that_scale():
    run = noise.over_the_run([point(1, 20, 64.0, 64.0, 64.0), point(50, 100, 64.0, 64.0, math.inf)], 1000, 32)
    assert run.value == pytest.approx(64.0) and run.low == pytest.approx(64.0) and run.high == math.inf


def test_a_growing_noise_scale_counts_by_the_noiseless_steps_it_leaves():
    """E_min / S_min, summed step by step: N = 4 sqrt(s)."""
    scales = [4 * step**0.5 for step in range(1, 1001)]
    fewest = sum(1 / (1 + scale / 32) for scale in scales)
    most = sum(scale / (1 + scale / 32) for scale in scales)
    measured = [point(9, 23, 16.0, 16.0, 16.0), point(50, 150, 40.0, 40.0, 40.0)]
    assert noise.over_the_run(measured, 1000, 32).value == pytest.approx(most / fewest, rel=0.05)


def test_too_few_gradients_or_one_without_a_mean_are_not_measurable():
    with pytest.raises(InputError, match="not measurable: 5 measurements of the gradient are finite"):
        noise.points(made_moments(lambda step: 50.0)[:5])
    values = np.random.RandomState(0).normal(size=20) - 1.0
    history = [{"step": step, "squared_norm": value, "trace": abs(value)} for step, value in enumerate(values)]
    with pytest.raises(InputError, match="not measurable: .* cannot be told from its noise"):
        noise.points(history)


def test_all_sizes_are_timed_in_turn():
    seen = []
    turns, _ = measuring.step_times(lambda size: lambda: seen.append(size), [8, 16], seconds=0.05, say=str)
    assert set(turns) == {8, 16} and len(turns[8]) == len(turns[16]) >= 3
    assert sum(before != after for before, after in zip(seen, seen[1:])) >= 2 * 3 - 1


def test_a_size_that_does_not_fit_ends_the_list_and_another_error_is_raised():
    def step_at(size):
        if size > 16:
            raise MemoryError
        return lambda: None

    turns, stopped = measuring.step_times(step_at, [8, 16, 32], seconds=0.05, say=str)
    assert list(turns) == [8, 16] and stopped == "32 took more memory than there is"
    with pytest.raises(KeyError):
        measuring.step_times(lambda size: {}[size], [8], seconds=0.05, say=str)


@pytest.mark.parametrize(
    "losses, diverges",
    [([2.0, 1.0], False), ([2.0, 5.0], True), ([2.0, float("nan")], True), ([-1.0, -2.0], False)],
)
def test_a_loss_that_rises_is_a_divergence_and_the_time_is_kept(losses, diverges):
    watch = measuring._Watch(types.SimpleNamespace(history=[{"step": step} for step in range(12)]), seconds=-1.0)
    for loss in losses:
        assert watch.is_over(loss)
    with pytest.raises(InputError, match="the recipe diverges: its loss is") if diverges else nullcontext():
        watch.check()
