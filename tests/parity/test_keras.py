"""Keras 3 has a Lamb that is not the paper's: how ours and the paper's differ from it."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.parity_runs import LAMB_RATE, UPDATES, assert_same, decayed_from, run
from tfbigbatch.optimizers.keras2 import LAMB

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
    assert_same(run(LAMB(decayed_from(LAMB_RATE))), run(keras.optimizers.Lamb(schedule, epsilon=1e-6)))
