"""Masks in TensorFlow are those in NumPy, whose own tests hold them to the definition."""

import numpy as np
import pytest
import tensorflow as tf

from tests.data.bert.test_static_masking import CONTINUES, LENGTH, MASK, SIZE, sequences
from tfbigbatch.data.bert import masking, static_masking
from tfbigbatch.data.records import counter_random


@pytest.mark.parametrize("seed, epoch", [(0, 0), (2**31 - 1, 5), (3, -1)])
def test_the_keys_and_draws_are_the_same(seed, epoch):
    numbers = np.array([0, 1, 2**40])
    expected = counter_random.keys(seed, epoch, numbers)
    found = masking.keys(seed, tf.constant(epoch, tf.int64), tf.constant(numbers))
    np.testing.assert_array_equal(found.numpy(), expected.astype(np.int64))
    np.testing.assert_array_equal(masking.draws(found, 20).numpy(), counter_random.draws(expected, 20))


@pytest.mark.parametrize("most", [LENGTH, 7])
@pytest.mark.parametrize("continues", [None, CONTINUES])
def test_the_masks_are_the_same(continues, most):
    ids, firsts, lengths = sequences(300, shortest=5)
    numbers = np.arange(300)
    options = {"max_predictions": most, "mask_id": MASK, "vocabulary_size": SIZE}
    expected = static_masking.mask(
        ids, *static_masking.words(ids, firsts, lengths, continues), counter_random.keys(1, 2, numbers), **options
    )

    @tf.function(input_signature=[tf.TensorSpec([None, LENGTH], tf.int32), *[tf.TensorSpec([None], tf.int32)] * 2])
    def mask(ids, firsts, lengths):
        keys = masking.keys(1, tf.constant(2, tf.int64), tf.constant(numbers))
        return masking.mask(ids, *masking.words(ids, firsts, lengths, continues), keys, **options)

    found = mask(*(tf.constant(part, tf.int32) for part in (ids, firsts, lengths)))
    for mine, other in zip(found, expected):
        np.testing.assert_array_equal(mine.numpy(), other)
