"""Moments and weight decay at another batch size, against decimals of 60 digits and float64 NumPy."""

import decimal
import math

import numpy as np
import pytest

from tfbigbatch.optimizers import registry
from tfbigbatch.optimizers.declared import Group
from tfbigbatch.scaling import moments
from tfbigbatch.scaling.moments import MOMENTS
from tfbigbatch.scaling.recipe import Recipe

decimal.getcontext().prec = 60
JUST_UNDER_1 = math.nextafter(1.0, 0.0)
NEAR_1 = [JUST_UNDER_1, 1 - 1e-12, 1 - 1e-6, 0.9999, 0.999, 0.95, 0.9, 0.5, 1e-3, 1e-300]


@pytest.mark.parametrize("beta", NEAR_1)
@pytest.mark.parametrize("factor", [1 / 4096, 1 / 3, 1.0, 16.0, 64.0, 512.0])
def test_the_power_is_exact_to_a_unit_in_the_last_place(beta, factor):
    exact = (decimal.Decimal(factor) * decimal.Decimal(beta).ln()).exp()
    found = moments.scaled_beta(beta, factor)
    assert 0.0 <= found < 1.0
    unit = math.ulp(float(exact)) if exact > decimal.Decimal("1e-300") else 5e-324
    assert abs(decimal.Decimal(found) - exact) <= decimal.Decimal(unit)


@pytest.mark.parametrize("k", [2, 16, 64])
@pytest.mark.parametrize("beta", [0.0, 0.9, 0.99, 0.999, 1 - 1e-9])
def test_a_step_with_the_scaled_decay_is_k_steps_on_equal_inputs(beta, k):
    rng = np.random.default_rng(0)
    inputs = np.repeat(rng.standard_normal(20), k)
    small = np.float64(rng.standard_normal())
    large, scaled = small, np.float64(moments.scaled_beta(beta, k))
    for step, value in enumerate(inputs, 1):
        small = beta * small + (1.0 - beta) * value
        if step % k == 0:
            large = scaled * large + (1.0 - scaled) * value
            np.testing.assert_allclose(large, small, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("batch_size, rule", [(1024, "none"), (1024, "sqrt"), (1024, "linear"), (4, "sqrt")])
def test_weight_decay_times_rate_times_steps_is_kept(batch_size, rule):
    tuned = Recipe(64, 0.02, optimizer={"weight_decay": 0.01})
    scaled = tuned.at(batch_size, rule, weight_decay="kept")
    lost = [each.optimizer["weight_decay"] * each.learning_rate / each.batch_size for each in (tuned, scaled)]
    assert lost[1] == pytest.approx(lost[0])


def test_every_decay_of_a_moving_average_of_our_optimizers_is_known():
    others = {"weight_decay", "exclude_from_weight_decay"}
    arguments = {name: value for each in registry.names() for name, value in registry.fields(each).items()}
    groups = {name: value.config() for name, value in arguments.items() if isinstance(value, Group)}
    names = {*arguments, *(f"{name}.{field}" for name, fields in groups.items() for field in fields)}
    named = {name for name in names if any(word in name for word in ("beta", "momentum"))}
    assert named - others == set(MOMENTS["half_life_all"])
    assert set(MOMENTS["half_life"]) < set(MOMENTS["half_life_all"]) and MOMENTS["none"] == ()
