"""Sharpness against Hessians that are known: of a quadratic, and of a small network, in float64."""

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import mirrored
from tests.helpers.instrument_models import examples, fit, model_of, tanh
from tfbigbatch import instruments

PROBE = examples(64, seed=1)


def look(*hidden, strategy=None, **options):
    """(the model, what one look saw)."""
    sharpness = instruments.Sharpness(probe=PROBE, when=4, **options)
    model = fit(model_of(*hidden, strategy=strategy), [sharpness])
    assert [seen["step"] for seen in sharpness.history] == [4]
    return model, sharpness.history[0]


def derivatives(function, point):
    """(value, gradient, whole Hessian) at a point, in float64."""
    point = tf.Variable(point)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            value = function(point)
        gradient = inner.gradient(value, point)
    return value.numpy(), gradient.numpy(), outer.jacobian(gradient, point).numpy()


def flat(model):
    return np.concatenate([weights.ravel() for weights in model.get_weights()]).astype("float64")


def network_loss(point):
    x, y = (tf.constant(array, tf.float64) for array in PROBE)
    kernel, bias, last, shift = tf.split(point, [12, 3, 3, 1])
    hidden = tf.tanh(x @ tf.reshape(kernel, [4, 3]) + bias)
    return tf.reduce_mean((hidden @ last[:, None] + shift - y) ** 2)


def assert_curvature(seen, hessian, gradient, rise, radius, count):
    eigenvalues = np.linalg.eigvalsh(hessian)[::-1][:count]
    found = [seen[f"eigenvalue_{number}"] for number in range(1, count + 1)]
    np.testing.assert_allclose(found, eigenvalues, rtol=0.01)
    assert abs(seen["trace"] - np.trace(hessian)) <= 3 * seen["trace_error"] + 0.01 * abs(np.trace(hessian))
    assert seen["gradient_norm"] == pytest.approx(np.linalg.norm(gradient), rel=1e-3)
    assert seen["rise"] == pytest.approx(float(rise(radius * gradient / np.linalg.norm(gradient))), rel=0.01)


def test_a_quadratic():
    model, seen = look(eigenvalues=5, radius=0.3, trace_samples=20)
    x = np.concatenate([PROBE[0], np.ones([64, 1])], axis=1).astype("float64")
    weights = flat(model)
    hessian, gradient = 2 * x.T @ x / 64, 2 * x.T @ (x @ weights - PROBE[1][:, 0]) / 64
    assert_curvature(seen, hessian, gradient, lambda e: gradient @ e + 0.5 * e @ hessian @ e, radius=0.3, count=5)


# Slow: replicas, where each product waits for both.
@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_network_whose_whole_hessian_is_computed(replicas):
    strategy = mirrored(2) if replicas == 2 else None
    model, seen = look(tanh, strategy=strategy, eigenvalues=3, trace_samples=30 if replicas == 1 else 8)
    weights = flat(model)
    loss, gradient, hessian = derivatives(network_loss, weights)
    assert seen["loss"] == pytest.approx(loss, rel=1e-5)
    assert_curvature(seen, hessian, gradient, lambda e: network_loss(weights + e) - loss, radius=0.05, count=3)
    assert 0 < seen["trace_error"] < abs(seen["trace"]) and seen["eigenvalue_error"] <= 1e-3 * seen["eigenvalue_1"]


def test_a_run_that_left_the_finite_numbers_is_left_alone():
    sharpness = instruments.Sharpness(probe=PROBE, when=[2])
    model = model_of()
    model.set_weights([weights + np.inf for weights in model.get_weights()])
    fit(model, [sharpness])
    assert set(sharpness.history[0]) == {"step", "loss", "gradient_norm"}
