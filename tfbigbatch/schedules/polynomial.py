"""Polynomial decay of the rate after the warm-up; Keras' own schedule serves."""

import tf_keras


def polynomial(peak, decay_steps, *, power=1.0, end=0.0):
    """From `peak` to `end` over `decay_steps` updates, as (1 - t / decay_steps) ** power."""
    return tf_keras.optimizers.schedules.PolynomialDecay(peak, max(1, decay_steps), end_learning_rate=end, power=power)
