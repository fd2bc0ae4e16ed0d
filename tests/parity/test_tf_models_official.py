"""LARS and LAMB beside tf-models-official's: the same weights, and where the two part by design."""

import pytest

from tests.helpers.parity_runs import (
    EETA,
    EXCLUSIONS,
    GRADIENTS,
    LAMB_RATE,
    LARS_RATE,
    WEIGHT_DECAY,
    assert_differ,
    assert_same,
    decayed_from,
    lamb,
    lars,
    run,
    sparse,
)

REASON = "tf-models-official is not installed: make setup"
official_lars = pytest.importorskip("official.modeling.optimization.lars", reason=REASON)
official_lamb = pytest.importorskip("official.modeling.optimization.lamb", reason=REASON)


def their_lars(**arguments):
    return official_lars.LARS(decayed_from(LARS_RATE), weight_decay_rate=WEIGHT_DECAY, eeta=EETA, **arguments)


def their_lamb(**arguments):
    return official_lamb.LAMB(decayed_from(LAMB_RATE), weight_decay_rate=WEIGHT_DECAY, **arguments)


@pytest.mark.parametrize("exclusions", EXCLUSIONS)
@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("form, classic_momentum", [("tfm", True), ("momentum_ratio", False)])
def test_lars(form, classic_momentum, nesterov, exclusions):
    ours = lars(form=form, nesterov=nesterov, **exclusions)
    assert_same(run(ours), run(their_lars(classic_momentum=classic_momentum, nesterov=nesterov, **exclusions)))


@pytest.mark.parametrize("exclusions", EXCLUSIONS)
def test_lamb(exclusions):
    assert_same(run(lamb(**exclusions)), run(their_lamb(**exclusions)))


def test_lamb_takes_sparse_gradients_alike_and_their_lars_none():
    gradients = sparse(GRADIENTS)
    assert_same(run(lamb(), gradients), run(their_lamb(), gradients))
    with pytest.raises(NotImplementedError):
        run(their_lars(), gradients)


@pytest.mark.parametrize("ours, theirs", [(lars, their_lars), (lamb, their_lamb)])
def test_an_empty_adaptation_list_means_as_decay_there_and_nobody_here(ours, theirs):
    lists = {"exclude_from_weight_decay": ["bias"], "exclude_from_layer_adaptation": []}
    assert_same(run(ours(exclude_from_weight_decay=["bias"])), run(theirs(**lists)))
    assert_differ(run(ours(**lists)), run(theirs(**lists)), ["dense/bias"])


def test_their_lars_matches_names_with_the_tensor_number():
    ends = {"exclude_from_weight_decay": ["bias$"]}
    assert_same(run(lars()), run(their_lars(**ends)))
    assert_differ(run(lars(**ends)), run(their_lars(**ends)), ["dense/bias"])
    assert_same(run(lamb(**ends)), run(their_lamb(**ends)))
