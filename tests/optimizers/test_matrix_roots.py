"""Inverse p-th roots against float64 eigendecompositions."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.optimizers_in_numpy import inverse_root
from tfbigbatch.optimizers import matrix_roots

both_methods = pytest.mark.parametrize("method", ["newton", "eigh"])


def statistics(size, rank, count=3, seed=0):
    """Sums of `rank` outer products, of lengths from 1 to 0.01 along the axis."""
    random = np.random.RandomState(seed)
    factors = random.normal(size=(count, size, rank)) * np.geomspace(1.0, 0.01, size)[:, np.newaxis]
    return factors @ factors.transpose(0, 2, 1)


@both_methods
@pytest.mark.parametrize("p", [1, 2, 3, 4])
@pytest.mark.parametrize("size, rank", [(1, 1), (9, 1), (40, 20), (128, 256)])
def test_roots_follow_float64(size, rank, p, method):
    matrices = statistics(size, rank, count=2)
    found = matrix_roots.inverse_roots(tf.constant(matrices, tf.float32), p, epsilon=1e-3, method=method)
    for root, residual, matrix in zip(found.roots.numpy(), found.residuals.numpy(), matrices):
        expected = inverse_root(matrix, p, 1e-3)
        # The eigenvalue that scales the damping is a few hundredths off at most.
        np.testing.assert_allclose(root, expected, atol=0.02 * np.abs(expected).max())
        assert residual < 2e-3


@both_methods
@pytest.mark.parametrize("rank", [1, 2, 4, 8])
def test_none_of_many_matrices_stops_early(rank, method):
    # Of some, the largest entry of Newton's error rises before it falls.
    factors = np.random.RandomState(0).normal(size=(1000, 8, rank))
    matrices = factors @ factors.transpose(0, 2, 1)
    found = matrix_roots.inverse_roots(tf.constant(matrices, tf.float32), 4, epsilon=1e-3, method=method)
    assert found.residuals.numpy().max() < 2e-3
    for root, matrix in zip(found.roots.numpy(), matrices):
        expected = inverse_root(matrix, 4, 1e-3)
        np.testing.assert_allclose(root, expected, atol=0.02 * np.abs(expected).max())


@both_methods
@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_the_matrices_scale_comes_out(scale, method):
    matrices = tf.constant(statistics(20, 40), tf.float32)
    plain = matrix_roots.inverse_roots(matrices, 4, epsilon=1e-4, method=method)
    scaled = matrix_roots.inverse_roots(matrices * scale, 4, epsilon=1e-4, method=method)
    np.testing.assert_allclose(scaled.roots * scale**0.25, plain.roots, rtol=2e-3, atol=1e-4)
    np.testing.assert_allclose(scaled.residuals, plain.residuals, atol=1e-3)


@both_methods
def test_a_matrix_that_is_not_finite_spoils_no_other(method):
    matrices = statistics(6, 12, count=4).astype("float32")
    expected = matrix_roots.inverse_roots(tf.constant(matrices[2:]), 4, epsilon=1e-4, method=method)
    matrices[0, 1, 1], matrices[1, 2, 0] = np.nan, np.inf
    found = matrix_roots.inverse_roots(tf.constant(matrices), 4, epsilon=1e-4, method=method)
    assert np.isnan(found.roots[:2]).all() and np.isnan(found.residuals[:2]).all()
    np.testing.assert_allclose(found.roots[2:], expected.roots, rtol=1e-5, atol=1e-6)


@both_methods
def test_a_matrix_of_zeros_is_damped_by_epsilon_itself(method):
    found = matrix_roots.inverse_roots(tf.zeros([1, 3, 3]), 4, epsilon=1e-4, method=method)
    np.testing.assert_allclose(found.roots[0], 10.0 * np.eye(3), rtol=1e-5)
    assert found.residuals[0] < 1e-4


def test_xla_takes_the_iteration_in_full_float32():
    matrices = tf.constant(statistics(20, 10), tf.float32)
    compiled = tf.function(lambda x: matrix_roots.inverse_roots(x, 4, epsilon=1e-4).roots, jit_compile=True)
    expected = matrix_roots.inverse_roots(matrices, 4, epsilon=1e-4, method="newton").roots
    np.testing.assert_allclose(compiled(matrices), expected, rtol=1e-3, atol=1e-3)
    lowered = compiled.experimental_get_compiler_ir(matrices)(stage="hlo")
    products = [line for line in lowered.splitlines() if " dot(" in line]
    assert products and all("operand_precision={highest,highest}" in line for line in products)
