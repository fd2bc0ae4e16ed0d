import math

import pytest

from tfbigbatch.scaling import Recipe
from tfbigbatch.scaling.noise_limit import noise_gain, rate_growth

TUNED = Recipe(batch_size=64, learning_rate=0.1, warmup_epochs=0.5)


def test_much_noise_is_the_linear_rule_and_none_keeps_the_rate():
    assert rate_growth(math.inf, tuned_batch=64, batch=1024) == 16.0
    assert rate_growth(1e12, tuned_batch=64, batch=1024) == pytest.approx(16.0)
    assert rate_growth(0.0, tuned_batch=64, batch=1024) == 1.0
    assert rate_growth(1024.0, tuned_batch=64, batch=1024) == pytest.approx((1 + 16) / 2)


def test_legw_is_kept_from_the_geometric_mean_of_the_batches_on():
    peak = TUNED.at(1024).learning_rate
    middle = math.sqrt(64 * 1024)
    assert noise_gain(middle, TUNED, batch_size=1024, peak=peak) == pytest.approx(1.0)
    assert noise_gain(1.1 * middle, TUNED, batch_size=1024, peak=peak) == 1.0
    assert noise_gain(0.9 * middle, TUNED, batch_size=1024, peak=peak) < 1.0


def test_the_gain_is_bounded():
    assert noise_gain(0.0, TUNED, batch_size=1024, peak=0.4) == pytest.approx(0.25)
    assert noise_gain(math.inf, TUNED, batch_size=1024, peak=0.4, highest=1.5) == 1.5
    assert noise_gain(64.0, TUNED, batch_size=64, peak=0.1) == 1.0


def test_numbers_out_of_range_are_refused():
    with pytest.raises(ValueError, match="peak=0.0 is out of range"):
        noise_gain(64.0, TUNED, batch_size=64, peak=0.0)
    with pytest.raises(ValueError, match="noise_scale=nan is out of range"):
        rate_growth(math.nan, tuned_batch=64, batch=1024)
    with pytest.raises(ValueError, match="batch=0 is out of range"):
        rate_growth(1.0, tuned_batch=64, batch=0)
