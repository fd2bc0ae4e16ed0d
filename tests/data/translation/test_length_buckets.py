"""The shapes that pairs are padded to, and epochs in batches of one bucket."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.data.translation import length_buckets
from tfbigbatch.data.translation.length_buckets import BucketOrder

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


SIZE = 103
BUCKETS = np.random.default_rng(0).integers(0, 3, SIZE).astype(np.int32)


def examples(count, *, batch_size=8, seed=0, block=5, buckets=BUCKETS):
    """The first `count` examples of training."""
    order, found, epoch = BucketOrder(buckets, batch_size, seed, block), [], 0
    while len(found) < count:
        for number in range(order.blocks(epoch)):
            found += order.examples(*tf.constant([epoch, number], tf.int64)).numpy().tolist()
        epoch += 1
    return np.array(found[:count])


@pytest.mark.parametrize("batch_size, steps", [(8, (4, 13, 27)), (50, (2,)), (250, (1,))])
def test_it_goes_on_from_any_step(batch_size, steps):
    whole = examples((steps[-1] + 3) * batch_size, batch_size=batch_size)
    for step in steps:
        runs = BucketOrder(BUCKETS, batch_size, 0, 5).runs(step).rebatch(batch_size).take(3)
        rest = np.concatenate(list(runs.as_numpy_iterator()))
        np.testing.assert_array_equal(rest, whole[step * batch_size :][: 3 * batch_size])


def test_batches_are_of_one_bucket_but_for_a_few():
    size, batch_size, block = 4000, 16, 50
    buckets = np.random.default_rng(1).integers(0, 4, size).astype(np.int32)
    found = examples(3 * size, batch_size=batch_size, block=block, buckets=buckets)
    of_batches = buckets[found].reshape(-1, batch_size)
    mixed = (of_batches.min(axis=1) != of_batches.max(axis=1)).sum()
    # Three borders between four buckets in each of 5 blocks an epoch; 4000 is a multiple of 16.
    assert mixed <= 3 * 5 * 3
    # They alternate: the bucket of a batch does not tell that of the next.
    largest = of_batches.max(axis=1)
    assert 0.1 < (largest[1:] == largest[:-1]).mean() < 0.5


def test_a_batch_of_two_epochs_has_parts_of_about_the_same_length():
    size, batch_size = 203, 10
    lengths = np.random.default_rng(2).integers(0, 100, size).astype(np.int32)
    found = examples(30 * size, batch_size=batch_size, block=21, buckets=lengths)
    apart, anywhere = [], []
    for epoch in range(1, 29):
        step, before = divmod(epoch * size, batch_size)
        if before:
            part = lengths[found[step * batch_size : (step + 1) * batch_size]]
            apart.append(abs(part[:before].mean() - part[before:].mean()))
            anywhere.append(abs(part[:before].mean() - 49.5))
    assert np.mean(apart) < 8 and np.mean(anywhere) > 12
