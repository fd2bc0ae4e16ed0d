"""Matrices that the replicas share: who works on which, and what all of them have afterwards."""

import collections
import functools
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import mirrored
from tests.distributed.sharing_worker import SHAMPOO, cube, flops, mapped, stepped, values
from tests.helpers.keras_versions import KERAS_VERSIONS
from tfbigbatch.optimizers import assignment, sharing
from tfbigbatch.optimizers.assignment import Exchange, Group
from tfbigbatch.tpu.strategy import AheadOfTimeStrategy

groups = st.lists(st.builds(Group, st.integers(1, 9), st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=6)
# ResNet-50's last stage and classifier, and small ones.
LAYERS = [Group(3, 4608, 512), Group(2, 2048, 512), Group(1, 2048, 1000), Group(3, 576, 64), Group(4, 64, 256)]

ONE_DEVICE = tf.distribute.OneDeviceStrategy("CPU:0")


def newton_schulz_flops(rows, columns):
    """Of five steps on the smaller Gram matrix."""
    return 20.0 * rows * columns * min(rows, columns)


def cubes():
    return [value @ value.transpose(0, 2, 1) @ value for value in values("float64")]


# ---- Assignment -----------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(groups, st.integers(1, 12))
def test_each_matrix_is_dealt_once_and_the_loads_are_balanced(groups, replicas):
    parts = assignment.assign(groups, flops, replicas)
    assert len(parts) == replicas
    for index, group in enumerate(groups):
        ranges = [(part.start, part.stop) for own in parts for part in own if part.group == index]
        # In the replicas' order, without a gap.
        assert [start for start, _ in ranges] == [0, *(stop for _, stop in ranges[:-1])]
        assert ranges[-1][1] == group.count
    costs = [flops(group.rows, group.columns) for group in groups]
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


# ---- On logical CPUs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("replicas", [1, 2, 3, 4])
@pytest.mark.parametrize("share", [None, False])
def test_all_replicas_have_the_transformed_matrices(replicas, share):
    outcomes = mapped(mirrored(replicas), share)
    for of_replicas, expected in zip(outcomes, cubes(), strict=True):
        assert len(of_replicas) == replicas
        for value in of_replicas:
            np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-4)
            np.testing.assert_array_equal(value, of_replicas[0])


def test_replicas_share_within_a_condition_and_eagerly():
    for options in ({"every": tf.constant(True)}, {"graph": False}, {"dtype": "float64"}):
        for of_replicas, expected in zip(mapped(mirrored(2), True, **options), cubes(), strict=True):
            np.testing.assert_allclose(np.stack(of_replicas), np.stack([expected] * 2), rtol=1e-4, atol=1e-4)
    for of_replicas, expected in zip(mapped(mirrored(2), True, every=tf.constant(False)), values(), strict=True):
        np.testing.assert_array_equal(np.stack(of_replicas), np.stack([expected] * 2))


# ---- Optimizers -------------------------------------------------------------------------------------------------

RULES = {"muon": {"name": "Muon"}, "shampoo": SHAMPOO}


@functools.cache
def alone(keras_version, rule):
    return [copies[0] for copies in stepped(ONE_DEVICE, keras_version, **RULES[rule])]


@pytest.mark.parametrize(
    "keras_version, rule", [*((version, "muon") for version in KERAS_VERSIONS), ("keras3", "shampoo")]
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


# ---- The program of a TPU ---------------------------------------------------------------------------------------


def of_a_tpu_program(replicas, transform, batches):
    """What the replicas of a program have: each replica's number in turn, compiled by XLA for this CPU.

    The sum over the replicas is made here.
    """
    parts, totals = [], []

    def recorded(tensor, number_of_replicas):
        assert number_of_replicas == replicas
        parts.append(tensor)
        return totals[len(parts) - 1]

    def program(replica, sums):
        parts.clear()
        totals[:] = sums
        with mock.patch.object(sharing, "_replica_id", lambda: replica):
            with mock.patch.object(sharing, "_sum_over_replicas", recorded):
                of_replicas = [[tf.constant(value)] for value in batches]
                strategy = AheadOfTimeStrategy(replicas)
                outcomes = sharing.map_matrices(transform, of_replicas, flops=flops, strategy=strategy, share=True)
        return list(parts), [value for [value] in outcomes]

    compiled = tf.function(program, jit_compile=True, autograph=False)
    counts = collections.Counter()
    for value in batches:
        counts[value.shape[1:]] += len(value)
    zeros = [tf.zeros([count, *shape]) for shape, count in counts.items()]
    of_replicas = [[part.numpy() for part in compiled(tf.constant(replica), zeros)[0]] for replica in range(replicas)]
    sums = [np.stack(of_shape) for of_shape in zip(*of_replicas, strict=True)]
    # Disjoint: no entry comes from two replicas.
    assert all(np.max(np.sum(each != 0.0, axis=0)) == 1 for each in sums)
    return compiled(tf.constant(0), [tf.constant(each.sum(axis=0)) for each in sums])[1]


@pytest.mark.parametrize("replicas", [2, 5, pytest.param(40, marks=pytest.mark.slow)])
def test_the_replicas_parts_of_a_tpu_program_add_up(replicas):
    for value, expected in zip(of_a_tpu_program(replicas, cube, values()), cubes(), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-4)
