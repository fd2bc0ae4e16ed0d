"""LARS and LAMB beside optax's: the same weights, and where the two part by design."""

import pytest

from tests.helpers.parity_runs import (
    EETA,
    GRADIENTS,
    LAMB_RATE,
    LARS_RATE,
    UPDATES,
    WEIGHT_DECAY,
    WEIGHTS,
    assert_differ,
    assert_same,
    decayed_from,
    run,
)
from tfbigbatch.optimizers.keras2 import LAMB, LARS

REASON = "optax or jax is not installed: pip install -c constraints.txt --use-pep517 '.[parity]'"
jax = pytest.importorskip("jax", reason=REASON)
optax = pytest.importorskip("optax", reason=REASON)


def rate_from(rate):
    return optax.linear_schedule(rate, 0.1 * rate, UPDATES)


def run_optax(transformation):
    weights, update = dict(WEIGHTS), jax.jit(transformation.update)
    state = transformation.init(weights)
    for gradients in GRADIENTS:
        updates, state = update(gradients, state, weights)
        weights = optax.apply_updates(weights, updates)
    return weights


def all_but(*endings):
    """A mask of optax: True where the variable takes part."""
    return {name: not name.endswith(endings) for name in WEIGHTS}


def our_lars(**arguments):
    return LARS(decayed_from(LARS_RATE), weight_decay=WEIGHT_DECAY, eeta=EETA, form="tfm", **arguments)


def their_lars(**arguments):
    return optax.lars(rate_from(LARS_RATE), weight_decay=WEIGHT_DECAY, trust_coefficient=EETA, **arguments)


def our_lamb(**arguments):
    return LAMB(decayed_from(LAMB_RATE), weight_decay=WEIGHT_DECAY, **arguments)


def their_lamb(**arguments):
    return optax.lamb(rate_from(LAMB_RATE), weight_decay=WEIGHT_DECAY, **arguments)


@pytest.mark.parametrize("epsilon", [0.0, 0.5])
@pytest.mark.parametrize("nesterov", [False, True])
def test_lars(nesterov, epsilon):
    ours = our_lars(nesterov=nesterov, epsilon=epsilon)
    assert_same(run(ours), run_optax(their_lars(nesterov=nesterov, eps=epsilon)))


@pytest.mark.parametrize("epsilon", [1e-6, 0.5])
def test_lamb(epsilon):
    assert_same(run(our_lamb(epsilon=epsilon)), run_optax(their_lamb(eps=epsilon)))


def test_lars_with_a_mask_for_each_of_decay_and_ratio():
    ours = our_lars(exclude_from_weight_decay=["bias"], exclude_from_layer_adaptation=["scale", "gamma"])
    theirs = their_lars(weight_decay_mask=all_but("bias"), trust_ratio_mask=all_but("scale", "gamma"))
    assert_same(run(ours), run_optax(theirs))


def test_a_mask_of_lars_decay_leaves_the_ratio_on_there():
    theirs = run_optax(their_lars(weight_decay_mask=all_but("bias")))
    assert_same(run(our_lars(exclude_from_weight_decay=["bias"], exclude_from_layer_adaptation=[])), theirs)
    assert_differ(run(our_lars(exclude_from_weight_decay=["bias"])), theirs, ["dense/bias"])


def test_the_mask_of_lamb_is_of_the_decay_alone():
    theirs = run_optax(their_lamb(mask=all_but("bias")))
    assert_same(run(our_lamb(exclude_from_weight_decay=["bias"], exclude_from_layer_adaptation=[])), theirs)
    assert_differ(run(our_lamb(exclude_from_weight_decay=["bias"])), theirs, ["dense/bias"])
