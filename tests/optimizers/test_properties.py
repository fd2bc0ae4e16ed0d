"""Properties that hold for any gradients (hypothesis)."""

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tests.helpers.keras_versions import make
from tfbigbatch.optimizers import rules

values = st.floats(-10.0, 10.0, width=32).filter(lambda value: value == 0.0 or abs(value) > 1e-3)
vectors = arrays.arrays(np.float32, st.integers(1, 20), elements=values)
scales = st.floats(2.0**-20, 2.0**20)


def started(vector):
    """A weight of the vector's size, the same for every test."""
    return tf.constant(np.random.RandomState(len(vector)).normal(size=len(vector)), tf.float32)


@settings(max_examples=60, deadline=None)
@given(vectors, scales, st.sampled_from(["paper", "tfm", "momentum_ratio"]), st.booleans())
def test_a_lars_step_does_not_depend_on_the_gradients_scale(gradient, scale, form, nesterov):
    if not np.any(gradient):
        return
    options = {"learning_rate": 0.5, "momentum": 0.9, "weight_decay": 0.0, "eeta": 0.1, "epsilon": 0.0, "adapt": True}
    weight = started(gradient)
    steps = [
        rules.lars(tf.constant(g, tf.float32), weight, tf.zeros_like(weight), form=form, nesterov=nesterov, **options)[
            0
        ]
        for g in (gradient, gradient * np.float32(scale))
    ]
    np.testing.assert_allclose(*steps, rtol=1e-4, atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(vectors, scales, st.booleans(), st.floats(0.0, 0.5))
def test_a_lamb_step_does_not_depend_on_the_gradients_scale(gradient, scale, bias_correction, weight_decay):
    weight = started(gradient)
    options = {
        "learning_rate": 0.1,
        "step": tf.constant(1.0),
        "beta_1": 0.9,
        "beta_2": 0.999,
        "epsilon": 0.0,
        "adapt": True,
    }
    steps = [
        rules.lamb(
            tf.constant(g, tf.float32), weight, tf.zeros_like(weight), tf.zeros_like(weight),
            bias_correction=bias_correction, weight_decay=weight_decay, **options,
        )[0]
        for g in (gradient, gradient * np.float32(scale))
    ]  # fmt: skip
    np.testing.assert_allclose(*steps, rtol=1e-3, atol=1e-4)


@settings(max_examples=40, deadline=None)
@given(vectors, st.floats(0.01, 1.0))
def test_a_lamb_step_has_the_length_of_the_rate_times_the_weight(gradient, rate):
    if not np.any(gradient):
        return
    weight = started(gradient)
    end, *_ = rules.lamb(
        tf.constant(gradient), weight, tf.zeros_like(weight), tf.zeros_like(weight), learning_rate=rate,
        step=tf.constant(1.0), beta_1=0.9, beta_2=0.999, epsilon=1e-6, weight_decay=0.1, bias_correction=True,
        adapt=True,
    )  # fmt: skip
    np.testing.assert_allclose(rules.norm(end - weight), rate * rules.norm(weight), rtol=1e-3)


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(["tf_keras", "keras3"]),
    st.sampled_from(["LARS", "LAMB"]),
    st.sampled_from([2, 3, 4]),
    arrays.arrays(np.float32, (12, 3), elements=values),
)
def test_any_split_into_micro_batches_gives_the_same_weights(keras_version, name, accumulation_steps, gradients):
    ends = []
    for steps in (1, accumulation_steps):
        variable = tf.Variable([1.0, -2.0, 3.0], name="kernel")
        optimizer = make(keras_version, name, learning_rate=0.1, weight_decay=0.01, accumulation_steps=steps)
        rows = gradients if steps > 1 else gradients.reshape(-1, accumulation_steps, 3).mean(axis=1, dtype=np.float64)
        for row in rows:
            optimizer.apply_gradients([(tf.constant(row, tf.float32), variable)])
        assert int(optimizer.iterations) == 12 // accumulation_steps
        ends.append(variable.numpy())
    # A mean that should be zero is only nearly so, and LARS and LAMB scale what is left to a whole step.
    means = np.abs(gradients.reshape(-1, accumulation_steps, 3).mean(axis=1, dtype=np.float64))
    if ((means == 0.0) | (means > 1e-3)).all():
        np.testing.assert_allclose(*ends, rtol=1e-3, atol=1e-4)
