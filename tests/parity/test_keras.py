"""Keras 3's Lamb, which is not the paper's, and its Muon: the same weights, and where the two part by design."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.parity_runs import (
    LAMB_RATE,
    MUON_GRADIENTS,
    MUON_RATE,
    MUON_TOLERANCE,
    MUON_WEIGHTS,
    UPDATES,
    WEIGHT_DECAY,
    assert_differ,
    assert_same,
    decayed_from,
    run,
)
from tfbigbatch.keras2 import LAMB, Muon

keras = pytest.importorskip("keras", minversion="3.7", reason="Keras 3 with its Lamb is not installed")


@pytest.mark.parametrize("optimizer, expected", [(keras.optimizers.Lamb, [2.85, 3.8]), (LAMB, [2.7, 3.6])])
def test_keras_3_decays_outside_the_trust_ratio(optimizer, expected):
    """There a decay of 0.5 at a rate of 0.1 takes 5%; in the ratio its size falls out, and the rate's 10% remain."""
    variable = tf.Variable([3.0, 4.0], name="kernel")
    optimizer(learning_rate=0.1, weight_decay=0.5).apply_gradients([(tf.zeros(2), variable)])
    np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-6)


def test_without_decay_it_is_the_same_but_for_the_default_epsilon():
    schedule = keras.optimizers.schedules.PolynomialDecay(LAMB_RATE, UPDATES, 0.1 * LAMB_RATE)
    assert keras.optimizers.Lamb().epsilon == 1e-7 and LAMB().epsilon == 1e-6
    ours = LAMB(decayed_from(LAMB_RATE), exclude_from_weight_decay=[])
    assert_same(run(ours), run(keras.optimizers.Lamb(schedule, epsilon=1e-6)))


def our_muon(**arguments):
    arguments = {"exclude_from_weight_decay": [], **arguments}
    return Muon(decayed_from(MUON_RATE), weight_decay=WEIGHT_DECAY, **arguments)


def run_theirs(adam_weight_decay=WEIGHT_DECAY, **arguments):
    """Their Muon, which reads the path of a variable of two axes unless it is told that embeddings are matrices."""
    if not hasattr(keras.optimizers, "Muon"):
        pytest.skip("this Keras has no Muon")
    schedule = keras.optimizers.schedules.PolynomialDecay(MUON_RATE, UPDATES, 0.1 * MUON_RATE)
    decay = {"weight_decay": WEIGHT_DECAY, "adam_weight_decay": adam_weight_decay}
    adam = {"adam_beta_2": 0.99, "epsilon": 1e-12}
    optimizer = keras.optimizers.Muon(schedule, exclude_embeddings=False, **decay, **adam, **arguments)
    return run(optimizer, MUON_GRADIENTS, MUON_WEIGHTS)


@pytest.mark.parametrize(
    "nesterov, momentum, steps, ratio",
    [(True, 0.95, 5, 0.5), pytest.param(False, 0.8, 3, 1.0, marks=pytest.mark.slow)],
)
def test_muon_is_the_same_on_matrices_of_two_axes_and_on_vectors(nesterov, momentum, steps, ratio):
    # The ratio is of the decay too, here.
    theirs = run_theirs(ratio * WEIGHT_DECAY, nesterov=nesterov, momentum=momentum, ns_steps=steps, adam_lr_ratio=ratio)
    ours = our_muon(
        nesterov=nesterov,
        momentum=momentum,
        newton_schulz={"steps": steps},
        vectors={"learning_rate_ratio": ratio, "epsilon": 1e-12},
        # Theirs orthogonalises the output layer, and nothing of more than two axes.
        treatments=[("logits", "matrix"), ("conv|attention", "vector")],
    )
    assert_same(run(ours, MUON_GRADIENTS, MUON_WEIGHTS), theirs, **MUON_TOLERANCE)


def test_what_is_a_matrix_differs_from_keras_muon():
    ours = run(our_muon(vectors={"epsilon": 1e-12}), MUON_GRADIENTS, MUON_WEIGHTS)
    of_more_axes = [name for name, weight in MUON_WEIGHTS.items() if weight.ndim > 2]
    assert_differ(ours, run_theirs(), [*of_more_axes, "logits/kernel"])
