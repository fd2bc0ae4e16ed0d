"""LARS, LAMB and Muon beside optax's: the same weights, and where the two part by design."""

import pytest

from tests.helpers.parity_runs import (
    EETA,
    GRADIENTS,
    LAMB_RATE,
    LARS_RATE,
    MUON_GRADIENTS,
    MUON_RATE,
    MUON_TOLERANCE,
    MUON_WEIGHTS,
    UPDATES,
    WEIGHT_DECAY,
    WEIGHTS,
    assert_differ,
    assert_same,
    decayed_from,
    lamb,
    lars,
    run,
)
from tfbigbatch.keras2 import Muon

REASON = "optax or jax is not installed: make setup"
jax = pytest.importorskip("jax", reason=REASON)
optax = pytest.importorskip("optax", reason=REASON)


def rate_from(rate):
    return optax.linear_schedule(rate, 0.1 * rate, UPDATES)


def run_optax(transformation, gradients_of_steps=GRADIENTS, weights=WEIGHTS):
    weights, update = dict(weights), jax.jit(transformation.update)
    state = transformation.init(weights)
    for gradients in gradients_of_steps:
        updates, state = update(gradients, state, weights)
        weights = optax.apply_updates(weights, updates)
    return weights


def all_but(*endings):
    """A mask of optax: True where the variable takes part."""
    return {name: not name.endswith(endings) for name in WEIGHTS}


def their_lars(**arguments):
    return optax.lars(rate_from(LARS_RATE), weight_decay=WEIGHT_DECAY, trust_coefficient=EETA, **arguments)


def their_lamb(**arguments):
    return optax.lamb(rate_from(LAMB_RATE), weight_decay=WEIGHT_DECAY, **arguments)


@pytest.mark.parametrize("epsilon", [0.0, 0.5])
@pytest.mark.parametrize("nesterov", [False, True])
def test_lars(nesterov, epsilon):
    ours = lars(nesterov=nesterov, epsilon=epsilon)
    assert_same(run(ours), run_optax(their_lars(nesterov=nesterov, eps=epsilon)))


@pytest.mark.parametrize("epsilon", [1e-6, 0.5])
def test_lamb(epsilon):
    assert_same(run(lamb(epsilon=epsilon)), run_optax(their_lamb(eps=epsilon)))


def test_a_mask_of_lars_decay_leaves_the_ratio_on_there():
    theirs = run_optax(their_lars(weight_decay_mask=all_but("bias")))
    assert_same(run(lars(exclude_from_weight_decay=["bias"], exclude_from_layer_adaptation=[])), theirs)
    assert_differ(run(lars(exclude_from_weight_decay=["bias"])), theirs, ["dense/bias"])


def test_the_mask_of_lamb_is_of_the_decay_alone():
    theirs = run_optax(their_lamb(mask=all_but("bias")))
    assert_same(run(lamb(exclude_from_weight_decay=["bias"], exclude_from_layer_adaptation=[])), theirs)
    assert_differ(run(lamb(exclude_from_weight_decay=["bias"])), theirs, ["dense/bias"])


def their_muon(axes, **arguments):
    """`axes`: of each variable, the axes of the rows and of the columns; None: by Adam. The others are batches."""
    if not hasattr(optax.contrib, "muon"):
        pytest.skip("this optax has no Muon")
    numbers = {name: each and optax.contrib.MuonDimensionNumbers(*each) for name, each in axes.items()}
    decay = {"weight_decay": WEIGHT_DECAY, "adam_weight_decay": WEIGHT_DECAY}
    transformation = optax.contrib.muon(
        rate_from(MUON_RATE), adam_b2=0.99, muon_weight_dimension_numbers=numbers, **decay, **arguments
    )
    return run_optax(transformation, MUON_GRADIENTS, MUON_WEIGHTS)


def our_muon(**arguments):
    optimizer = Muon(
        decayed_from(MUON_RATE), weight_decay=WEIGHT_DECAY, **{"exclude_from_weight_decay": [], **arguments}
    )
    return run(optimizer, MUON_GRADIENTS, MUON_WEIGHTS)


# As our table of matrices has them, but for the queries: each head by itself.
AXES = {
    "dense/kernel": (0, 1),
    "wide/kernel": (0, 1),
    "conv/kernel": ((0, 1, 2), 3),
    "attention/query/kernel": (0, 2),
    "attention/attention_output/kernel": ((0, 1), 2),
    "logits/kernel": None,
    "dense/bias": None,
}
BY_HEAD = [("query", "heads")]


def test_muon_reads_the_same_matrices():
    theirs = their_muon(AXES, nesterov=False, consistent_rms=0.2)
    assert_same(our_muon(nesterov=False, treatments=BY_HEAD), theirs, **MUON_TOLERANCE)


@pytest.mark.slow
def test_the_first_scale_of_muon_is_spectral_where_outputs_are_more():
    theirs = their_muon(AXES, nesterov=False)
    # There it is sqrt(max(1, out / in)).
    more_inputs = ["dense/kernel", "conv/kernel", "attention/query/kernel"]
    assert_differ(our_muon(nesterov=False, scale="spectral", treatments=BY_HEAD), theirs, more_inputs)


@pytest.mark.slow
def test_nesterov_momentum_is_corrected_for_its_bias_there():
    """And Adam's with it, which is NAdam there: all variables differ."""
    assert_differ(our_muon(treatments=BY_HEAD), their_muon(AXES, consistent_rms=0.2), MUON_WEIGHTS)
