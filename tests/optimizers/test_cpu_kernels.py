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
    random = np.random.RandomState(0)
    weight = tf.Variable(random.normal(size=SHAPE), dtype=tf.float32)
    states = [tf.Variable(tf.zeros(SHAPE)) for _ in range(slots)]
    plain = [tf.constant(weight), *(tf.zeros(SHAPE) for _ in states)]
    in_graph = tf.function(lambda gradient, **moving: kernel(gradient, weight, *states, **options, **moving) and None)
    for step in range(1, steps + 1):
        gradient = tf.constant(random.normal(size=SHAPE), tf.float32)
        moving = {"learning_rate": tf.constant(0.3 / step)}
        if kernel is lamb:
            moving["step"] = tf.constant(float(step))
        *plain, _ = rule(gradient, *plain, **options, **moving)
        in_graph(gradient, **moving)
    for ours, theirs in zip([weight, *states], plain):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5, atol=tolerance)


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
