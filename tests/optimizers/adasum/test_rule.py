"""Adasum's arithmetic against float64 NumPy, the paper's identities, and the values of FACTS."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.optimizers_in_numpy import tree
from tfbigbatch.optimizers.adasum import rule

ON_TPU = {"dtype": tf.float32, "leaves": 2}


def combined(vectors, **options):
    return rule.combine([tf.constant(np.asarray(vectors), tf.float32)], **options)[0].numpy()


@pytest.mark.parametrize("options", [{}, ON_TPU])
@pytest.mark.parametrize("workers", [1, 2, 3, 4, 5, 7, 8, 9, 11, 16, 17, 33])
def test_any_number_of_workers_combines_as_the_tree(workers, options):
    vectors = np.random.RandomState(workers).normal(0.3, 1.0, [workers, 40]).astype("float32")
    np.testing.assert_allclose(combined(vectors, **options), tree(vectors), rtol=2e-5, atol=5e-6)


def test_four_vectors_give_horovods_values():
    vectors = [[1, 0, 2], [0, 3, 1], [2, -1, 0], [1, 1, 1]]
    np.testing.assert_allclose(combined(vectors), [2.62853504, 2.26907415, 2.76095604], rtol=1e-6)


@pytest.mark.parametrize(
    "a, b, expected",
    [
        ([1, 0], [0, 2], [1, 2]),
        ([3, 4], [3, 4], [3, 4]),
        ([1, 2], [2, 4], [1.5, 3]),
        ([1, 2], [-1, -2], [0, 0]),
        ([0, 0], [1, 2], [1, 2]),
        ([0, 0], [0, 0], [0, 0]),
        ([1e-20, 0], [0, 1e-20], [1e-20, 1e-20]),
        ([1e-22, 0], [1e-22, 0], [1e-22, 0]),
    ],
)
def test_identities(a, b, expected):
    np.testing.assert_allclose(combined([a, b]), np.float32(expected), rtol=1e-6)


def test_opposite_vectors_do_not_break_the_tree():
    random = np.random.RandomState(0)
    vectors = np.stack([random.normal(size=2000) * sign for sign in (1, 1, -1, -1, 1, -1, 1, -1)]).astype("float32")
    vectors[2:4] = -vectors[:2] + 1e-3 * random.normal(size=[2, 2000])
    expected = tree(vectors)
    error = np.abs(combined(vectors) - expected).max() / np.abs(expected).max()
    assert error < 1e-5
    assert np.abs(combined(vectors, **ON_TPU) - expected).max() / np.abs(expected).max() < 1e-3


def test_half_precision_is_combined_in_float32():
    vectors = np.random.RandomState(0).normal(size=[4, 5000])
    half = tf.constant(vectors, tf.bfloat16)
    result = rule.combine([half])[0]
    assert result.dtype == tf.float32
    np.testing.assert_allclose(result, tree(tf.cast(half, tf.float64).numpy()), rtol=1e-5, atol=1e-5)


def test_what_is_not_finite_stays_so():
    assert np.isnan(combined([[1.0, np.nan], [1.0, 1.0]])).all()
    assert not np.isfinite(combined([[1.0, np.inf], [1.0, 1.0]])).any()
