"""The pure maths against NumPy in float64, and against published numbers."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.references.numpy_rules import lamb_run, lars_run
from tfbigbatch.optimizers import rules

WEIGHT = [1.0, 2.0, 3.0, 4.0]
GRADIENTS = [[0.1, 0.2, -0.3, 0.4], [-0.2, 0.1, 0.3, 0.1], [0.05, -0.1, 0.2, 0.3]]
RATES = [1.0, 0.5, 0.25]


def run_lars(weight, gradients, rates, **options):
    settings = {
        "momentum": 0.9,
        "weight_decay": 0.01,
        "eeta": 0.001,
        "epsilon": 0.0,
        "nesterov": False,
        "adapt": True,
        "form": "paper",
    }
    settings.update(options)
    w, v = tf.constant(weight, tf.float32), tf.zeros(len(weight))
    for gradient, rate in zip(gradients, rates):
        w, v, _ = rules.lars(tf.constant(gradient, tf.float32), w, v, learning_rate=rate, **settings)
    return w.numpy()


def run_lamb(weight, gradients, rates, **options):
    settings = {
        "beta_1": 0.9,
        "beta_2": 0.999,
        "epsilon": 1e-6,
        "weight_decay": 0.01,
        "bias_correction": True,
        "adapt": True,
    }
    settings.update(options)
    w = tf.constant(weight, tf.float32)
    m = v = tf.zeros(len(weight))
    for step, (gradient, rate) in enumerate(zip(gradients, rates), start=1):
        w, m, v, _ = rules.lamb(
            tf.constant(gradient, tf.float32), w, m, v, learning_rate=rate, step=tf.constant(float(step)), **settings
        )
    return w.numpy()


# Computed once in float64, and reproduced by the implementations that each form is named after.
@pytest.mark.parametrize(
    "form, first, last",
    [
        ("paper", 0.99933577, 3.98643762),
        ("tfm", 0.99928623, 3.98575803),
        ("momentum_ratio", 0.99937146, 3.99223133),
    ],
)
def test_lars_golden_numbers(form, first, last):
    weight = run_lars(WEIGHT, GRADIENTS, RATES, form=form)
    np.testing.assert_allclose([weight[0], weight[3]], [first, last], rtol=2e-7)


@pytest.mark.parametrize(
    "bias_correction, first, last", [(True, 0.98146333, 3.94239667), (False, 0.98194086, 3.94313360)]
)
def test_lamb_golden_numbers(bias_correction, first, last):
    weight = run_lamb(WEIGHT, GRADIENTS, [rate * 0.01 for rate in RATES], bias_correction=bias_correction)
    np.testing.assert_allclose([weight[0], weight[3]], [first, last], rtol=2e-7)


def test_lamb_golden_numbers_with_a_bounded_ratio():
    weight = run_lamb(WEIGHT, GRADIENTS, [rate * 0.01 for rate in RATES], bounds=(None, 1.0))
    np.testing.assert_allclose([weight[0], weight[3]], [0.99199804, 3.98291025], rtol=2e-7)


def long_run(seed=0, size=50, steps=12):
    random = np.random.RandomState(seed)
    rates = 0.5 / (1 + np.arange(steps))
    return random.normal(size=size), random.normal(size=(steps, size)), rates


@pytest.mark.parametrize("adapt", [True, False])
@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("form", ["paper", "tfm", "momentum_ratio"])
def test_lars_follows_numpy_with_a_changing_rate(form, nesterov, adapt):
    weight, gradients, rates = long_run()
    expected = lars_run(weight, gradients, rates, form=form, nesterov=nesterov, adapt=adapt, eps=1e-3)
    actual = run_lars(weight, gradients, rates, form=form, nesterov=nesterov, adapt=adapt, epsilon=1e-3)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("adapt", [True, False])
@pytest.mark.parametrize("bias_correction", [True, False])
def test_lamb_follows_numpy_with_a_changing_rate(bias_correction, adapt):
    weight, gradients, rates = long_run()
    expected = lamb_run(weight, gradients, rates * 0.1, bias_correction=bias_correction, adapt=adapt)
    actual = run_lamb(weight, gradients, rates * 0.1, bias_correction=bias_correction, adapt=adapt)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_trust_ratio_is_one_where_a_norm_is_zero():
    one, zero = tf.constant(2.0), tf.constant(0.0)
    assert rules.trust_ratio(one, one, zero, one) == 1.0
    assert rules.trust_ratio(one, zero, one, zero) == 1.0
    assert rules.trust_ratio(tf.constant(3.0), one, one, one) == 1.5
    assert rules.trust_ratio(tf.constant(3.0), one, one, one, (None, 1.25)) == 1.25
    assert rules.trust_ratio(tf.constant(3.0), one, one, one, (2.0, None)) == 2.0
    # A layer without a norm is not bounded: it keeps the plain rate.
    assert rules.trust_ratio(one, one, zero, one, (2.0, 3.0)) == 1.0


def test_a_zero_gradient_with_epsilon_zero_stays_finite():
    assert np.isfinite(run_lars(WEIGHT, [[0.0] * 4] * 3, RATES, weight_decay=0.0)).all()
    np.testing.assert_array_equal(run_lamb(WEIGHT, [[0.0] * 4] * 3, RATES, epsilon=0.0, weight_decay=0.0), WEIGHT)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_the_first_step_does_not_depend_on_the_gradients_scale(scale):
    scaled = [[g * scale for g in GRADIENTS[0]]]
    plain = run_lars(WEIGHT, GRADIENTS[:1], [1.0], weight_decay=0.0)
    np.testing.assert_allclose(run_lars(WEIGHT, scaled, [1.0], weight_decay=0.0), plain, rtol=1e-6)
    plain = run_lamb(WEIGHT, GRADIENTS[:1], [0.01], epsilon=0.0)
    np.testing.assert_allclose(run_lamb(WEIGHT, scaled, [0.01], epsilon=0.0), plain, rtol=1e-6)
