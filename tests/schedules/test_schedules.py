import numpy as np
import pytest
import tf_keras

from tfbigbatch import schedules
from tfbigbatch.schedules import GradualWarmup


def rates(schedule, steps):
    return [float(schedule(step)) for step in steps]


def test_warm_up_rises_from_zero_then_decays_linearly_to_zero():
    schedule = schedules.build(0.4, warmup_steps=10, total_steps=110, decay="linear")
    np.testing.assert_allclose(rates(schedule, [0, 5, 10, 60, 110]), [0.0, 0.2, 0.4, 0.2, 0.0], atol=1e-7)


def test_polynomial_decay_follows_its_formula():
    schedule = schedules.build(1.0, warmup_steps=0, total_steps=100, decay="polynomial", power=2.0, end=0.1)
    np.testing.assert_allclose(rates(schedule, [0, 50, 100]), [1.0, 0.9 * 0.25 + 0.1, 0.1], rtol=1e-6)


def test_constant_keeps_the_peak():
    schedule = schedules.build(0.3, warmup_steps=2, total_steps=10, decay="constant")
    np.testing.assert_allclose(rates(schedule, [0, 1, 2, 9]), [0.0, 0.15, 0.3, 0.3], rtol=1e-6)


def test_serialises_with_the_schedule_that_follows():
    schedule = schedules.build(0.4, warmup_steps=10, total_steps=110, decay="linear")
    stored = tf_keras.optimizers.schedules.serialize(schedule)
    restored = tf_keras.optimizers.schedules.deserialize(stored)
    assert isinstance(restored, GradualWarmup)
    assert rates(restored, [3, 30, 90]) == rates(schedule, [3, 30, 90])


def test_bad_schedules_are_refused():
    with pytest.raises(ValueError, match="decay 'linaer' is unknown. Did you mean 'linear'"):
        schedules.build(0.4, warmup_steps=0, total_steps=10, decay="linaer")
    with pytest.raises(ValueError, match="warm-up of 20 updates is longer than the run of 10"):
        schedules.build(0.4, warmup_steps=20, total_steps=10)
