"""The shapes that pairs are padded to."""

import itertools

import numpy as np
import pytest

from tfbigbatch.data.translation import length_buckets

LENGTHS = np.random.default_rng(0).integers(1, 13, [200, 2])


def share(shapes, lengths=LENGTHS):
    """The fraction of positions that are padding."""
    return 1 - lengths.sum() / np.array(shapes).sum(axis=1)[length_buckets.buckets_of(lengths, shapes)].sum()


def test_each_pair_is_in_the_smallest_shape_that_holds_it():
    shapes = ((3, 4), (5, 5), (5, 9))
    lengths = np.array([[1, 1], [3, 4], [4, 1], [1, 5], [5, 6], [1, 9]])
    np.testing.assert_array_equal(length_buckets.buckets_of(lengths, shapes), [0, 0, 1, 1, 2, 2])


@pytest.mark.parametrize("most", [1, 2, 3])
def test_the_choice_is_the_best_there_is(most):
    chosen = length_buckets.choose(LENGTHS, most)
    assert len(chosen) == most and chosen[-1] == tuple(LENGTHS.max(axis=0))
    inner = list(itertools.product(range(1, 13), repeat=2))
    chains = itertools.combinations(inner, most - 1)
    best = min(
        share((*chain, (12, 12)))
        for chain in chains
        if all(one[0] <= two[0] and one[1] <= two[1] for one, two in zip(chain, chain[1:]))
    )
    np.testing.assert_allclose(share(chosen), best)


def test_more_shapes_pad_less_and_none_is_superfluous():
    wide = np.random.default_rng(1).geometric(0.05, [5000, 2]).clip(1, 150)
    shares = [share(length_buckets.choose(wide, most), wide) for most in range(1, 7)]
    assert all(more < fewer for fewer, more in zip(shares, shares[1:])) and shares[4] < 0.6 * shares[0]
    for lengths in (np.full([9, 2], 7), np.array([[2, 3], [2, 3], [4, 4]])):
        chosen = length_buckets.choose(lengths, 5)
        assert len(chosen) == len(np.unique(lengths, axis=0)) and share(chosen, lengths) == 0
