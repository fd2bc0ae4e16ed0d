"""LAMB beside tensorflow-addons' last release: the same weights, and where the two part by design."""

import importlib
import sys

import pytest
import tensorflow as tf
import tf_keras

from tests.helpers.parity_runs import (
    EXCLUSIONS,
    LAMB_RATE,
    WEIGHT_DECAY,
    assert_same,
    decayed_from,
    lamb,
    run,
)

REASON = "tensorflow-addons is not installed; below Python 3.12: make setup"
# What addons imports of Keras, under names that hold Keras 3 today.
KERAS_2 = {
    "keras.src.engine": "tf_keras.src.engine",
    "keras.src.engine.keras_tensor": "tf_keras.src.engine.keras_tensor",
    "tensorflow.keras": "tf_keras",
    "tensorflow.keras.backend": "tf_keras.backend",
    "tensorflow.keras.metrics": "tf_keras.metrics",
    "tensorflow.keras.optimizers": "tf_keras.optimizers",
}


def import_addons():
    """Imports addons on tf_keras; the names are as before afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf, "keras", tf_keras)
        for name, stand_in in KERAS_2.items():
            patch.setitem(sys.modules, name, importlib.import_module(stand_in))
        return pytest.importorskip("tensorflow_addons", reason=REASON)


tfa = import_addons()


def their_lamb(**arguments):
    return tfa.optimizers.LAMB(decayed_from(LAMB_RATE), weight_decay=WEIGHT_DECAY, **arguments)


@pytest.mark.parametrize("exclusions", EXCLUSIONS)
def test_lamb(exclusions):
    assert_same(run(lamb(**exclusions)), run(their_lamb(**exclusions)))


def test_a_large_epsilon_is_outside_the_root():
    assert_same(run(lamb(epsilon=0.5)), run(their_lamb(epsilon=0.5)))
