"""Matrices that the replicas share: who works on which, and what all of them have afterwards."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import mirrored
from tests.helpers.keras_versions import KERAS_VERSIONS
from tests.helpers.replica_steps import SHAMPOO, stepped
from tfbigbatch.optimizers import assignment
from tfbigbatch.optimizers.assignment import Exchange, Group

groups = st.lists(st.builds(Group, st.integers(1, 9), st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=6)
# ResNet-50's last stage and classifier, and small ones.
LAYERS = [Group(3, 4608, 512), Group(2, 2048, 512), Group(1, 2048, 1000), Group(3, 576, 64), Group(4, 64, 256)]

ONE_DEVICE = tf.distribute.OneDeviceStrategy("CPU:0")


def newton_schulz_flops(rows, columns):
    """Of five steps on the smaller Gram matrix."""
    return 20.0 * rows * columns * min(rows, columns)


# ---- Assignment -----------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(groups, st.integers(1, 12))
def test_each_matrix_is_dealt_once_and_the_loads_are_balanced(groups, replicas):
    parts = assignment.assign(groups, newton_schulz_flops, replicas)
    assert len(parts) == replicas
    for index, group in enumerate(groups):
        ranges = [(part.start, part.stop) for own in parts for part in own if part.group == index]
        # In the replicas' order, without a gap.
        assert [start for start, _ in ranges] == [0, *(stop for _, stop in ranges[:-1])]
        assert ranges[-1][1] == group.count
    costs = [newton_schulz_flops(group.rows, group.columns) for group in groups]
    loads = [sum((stop - start) * costs[group] for group, start, stop in own) for own in parts]
    busiest = loads.index(max(loads))
    # Without the cheapest of its matrices it would have no more than any other: that one came last.
    cheapest = min((costs[group] for group, *_ in parts[busiest]), default=0.0)
    assert loads[busiest] - cheapest <= min(loads)


def test_only_matrices_that_take_longer_than_their_bytes_are_shared():
    chosen = functools.partial(assignment.worthwhile, LAYERS, newton_schulz_flops, 8)
    assert chosen(Exchange.SUM, None) == [0, 1, 2]
    assert chosen(Exchange.SUM, True) == [0, 1, 2, 3, 4]
    assert chosen(Exchange.SUM, False) == []
    # Within one CPU nothing moves.
    assert chosen(Exchange.SHARED_MEMORY, None) == [0, 1, 2, 3, 4]
    # One matrix of some milliseconds is not worth a collective.
    assert assignment.worthwhile([Group(1, 256, 256)], newton_schulz_flops, 8, Exchange.COLLECTIVE) == []


# ---- Optimizers -------------------------------------------------------------------------------------------------

RULES = {"muon": {"name": "Muon"}, "shampoo": SHAMPOO}


@functools.cache
def alone(keras_version, rule):
    return [copies[0] for copies in stepped(ONE_DEVICE, keras_version, **RULES[rule])]


@pytest.mark.parametrize(
    "keras_version, rule",
    [*((version, "muon") for version in KERAS_VERSIONS), pytest.param("keras3", "shampoo", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize(
    "replicas", [2, pytest.param(3, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)]
)
def test_replicas_that_share_end_where_one_does(keras_version, rule, replicas):
    shared = stepped(mirrored(replicas), keras_version, share_work=True, **RULES[rule])
    for copies, expected in zip(shared, alone(keras_version, rule), strict=True):
        for copy in copies:
            np.testing.assert_allclose(copy, expected, rtol=1e-4, atol=1e-6)
            np.testing.assert_array_equal(copy, copies[0])
