"""The in-place kernels against the plain formulas, over several updates with a rate that moves."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.optimizers import cpu_kernels, rules

SHAPE = (9, 7)


def lamb(gradient, *variables, step, beta_1, beta_2, epsilon, bias_correction, **options):
    """The kernel with the signature of `rules.lamb`."""
    scalars = cpu_kernels.adam_scalars(
        step, beta_1=beta_1, beta_2=beta_2, epsilon=epsilon, bias_correction=bias_correction
    )
    return cpu_kernels.lamb(gradient, *variables, scalars=scalars, **options)


def compared(kernel, rule, slots, steps=6, tolerance=1e-5, **options):
    """Holds the kernel to the rule; and with statistics to the same bits as without, and to what the rule did."""
    random = np.random.RandomState(0)
    start = random.normal(size=SHAPE)
    states = [
        [tf.Variable(start, dtype=tf.float32), *(tf.Variable(tf.zeros(SHAPE)) for _ in range(slots))] for _ in "ab"
    ]
    plain = [tf.constant(start, tf.float32), *(tf.zeros(SHAPE) for _ in range(slots))]
    without, telling = (
        tf.function(lambda gradient, state=state, **more: kernel(gradient, *state, **options, **more)[1])
        for state in states
    )
    for step in range(1, steps + 1):
        gradient = tf.constant(random.normal(size=SHAPE), tf.float32)
        moving = {"learning_rate": tf.constant(0.3 / step)}
        if kernel is lamb:
            moving["step"] = tf.constant(float(step))
        before = plain[0]
        *plain, ratio = rule(gradient, *plain, **options, **moving)
        assert without(gradient, **moving) is None
        told = telling(gradient, statistics=True, **moving)
        expected = (ratio, rules.norm(before), rules.norm(plain[0] - before))
        np.testing.assert_allclose([float(each) for each in told], [float(each) for each in expected], rtol=1e-4)
    for ours, same, theirs in zip(*states, plain):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5, atol=tolerance)
        np.testing.assert_array_equal(same.numpy(), ours.numpy())


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("adapt", [True, False])
@pytest.mark.parametrize("bias_correction, bounds", [(True, None), (False, (0.1, 0.5))])
def test_lamb(weight_decay, adapt, bias_correction, bounds):
    compared(
        lamb, rules.lamb, 2, beta_1=0.9, beta_2=0.999, epsilon=1e-6, weight_decay=weight_decay,
        bias_correction=bias_correction, adapt=adapt, bounds=bounds,
    )  # fmt: skip


@pytest.mark.parametrize("form", ["paper", "tfm"])
def test_lars(form):
    for weight_decay, adapt, nesterov, momentum in itertools.product(
        [0.0, 0.1], [True, False], [True, False], [0.9, 0.0]
    ):
        compared(
            cpu_kernels.lars, rules.lars, 1, momentum=momentum, weight_decay=weight_decay, eeta=0.1, epsilon=0.01,
            nesterov=nesterov, adapt=adapt, form=form,
        )  # fmt: skip


def test_a_decay_that_is_a_tensor_counts():
    compared(
        lamb, rules.lamb, 2, beta_1=0.9, beta_2=0.999, epsilon=1e-6, weight_decay=tf.constant(0.1),
        bias_correction=True, adapt=True,
    )  # fmt: skip


def test_norm():
    values = tf.constant(np.random.RandomState(0).normal(size=1000), tf.float32)
    assert cpu_kernels.norm(values).numpy() == pytest.approx(rules.norm(values).numpy(), rel=1e-6)
