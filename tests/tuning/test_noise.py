"""What the noise scale allows of a learning rate at another batch."""

import math

import pytest

import tfbigbatch
from tfbigbatch.tuning.noise import noise_gain, rate_growth


def test_much_noise_is_the_linear_rule_and_none_keeps_the_rate():
    assert rate_growth(math.inf, tuned_batch=64, batch=1024) == 16.0
    assert rate_growth(1e12, tuned_batch=64, batch=1024) == pytest.approx(16.0)
    assert rate_growth(0.0, tuned_batch=64, batch=1024) == 1.0
    assert rate_growth(1024.0, tuned_batch=64, batch=1024) == pytest.approx((1 + 16) / 2)


@pytest.mark.parametrize(
    "noise_scale, batch_size, peak, highest, gain",
    [
        # LEGW's peak is kept from the geometric mean of the batches on.
        (256.0, 1024, 0.4, 1.0, 1.0),
        (1.1 * 256, 1024, 0.4, 1.0, 1.0),
        (0.9 * 256, 1024, 0.4, 1.0, 0.25 * (1 + 0.9 * 4) / (1 + 0.9 / 4)),
        (0.0, 1024, 0.4, 1.0, 0.25),
        (math.inf, 1024, 0.4, 1.5, 1.5),
        (64.0, 64, 0.1, 1.0, 1.0),
    ],
)
def test_the_gain_by_noise(noise_scale, batch_size, peak, highest, gain):
    tuned = tfbigbatch.Recipe(batch_size=64, learning_rate=0.1, warmup_epochs=0.5)
    found = noise_gain(noise_scale, tuned, batch_size=batch_size, peak=peak, highest=highest)
    assert found == pytest.approx(gain) and found <= highest
