"""Newton-Schulz iterations and the formulas around them, against float64 NumPy and the SVD."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import optimizers_in_numpy
from tfbigbatch.optimizers import orthogonalization
from tfbigbatch.optimizers.orthogonalization import newton_schulz

# Square, nearly square, and those that are iterated in their Gram matrix; some in batches.
SHAPES = [(1, 6, 6), (2, 6, 5), (3, 5, 6), (1, 12, 4), (3, 4, 12), (2, 40, 5)]
NAMES = ["quintic", "polar_express"]


def random_matrices(shape, seed=0):
    return np.random.RandomState(seed).normal(size=shape)


def orthogonal(size, seed):
    return np.linalg.qr(random_matrices((size, size), seed))[0]


def orthogonalized(matrices, name="quintic", steps=5, dtype="float32", **options):
    batch = tf.constant(matrices, dtype)
    return newton_schulz(batch, orthogonalization.coefficients(name, steps), **options).numpy()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("steps", [1, 5, 12])
def test_every_form_is_the_iteration_of_numpy(name, steps):
    for shape in SHAPES:
        matrices = random_matrices(shape)
        expected = [optimizers_in_numpy.newton_schulz(each, name, steps) for each in matrices]
        np.testing.assert_allclose(orthogonalized(matrices, name, steps), expected, rtol=0, atol=1e-4)
        np.testing.assert_allclose(orthogonalized(matrices, name, steps, "float64"), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_bfloat16_products_are_near(name):
    matrices = random_matrices((2, 24, 20))
    expected = [optimizers_in_numpy.newton_schulz(each, name) for each in matrices]
    found = orthogonalized(matrices, name, product_dtype="bfloat16")
    assert found.dtype == np.float32
    # Singular values of a hundredth are no larger than bfloat16's rounding.
    assert np.linalg.norm(found - expected) < 0.15 * np.linalg.norm(expected)
    assert np.linalg.norm(found, 2, axis=(1, 2)).max() < 1.3
    # Long ones, iterated in their Gram matrix, and those of float64 keep their dtype.
    for shape, dtype in (((1, 60, 6), "float32"), ((1, 6, 6), "float64")):
        matrices = random_matrices(shape)
        exact = orthogonalized(matrices, name, dtype=dtype)
        np.testing.assert_array_equal(orthogonalized(matrices, name, dtype=dtype, product_dtype="bfloat16"), exact)


@pytest.mark.parametrize("rows, columns", [(16, 16), (16, 20), (48, 16), (16, 48)])
def test_the_singular_values_end_near_one_and_the_vectors_stay(rows, columns):
    """Of singular values over a range of 100: 0.68 to 1.21 for Muon's coefficients, 1 for Polar Express."""
    size = min(rows, columns)
    left, right = orthogonal(rows, 1)[:, :size], orthogonal(columns, 2)[:size]
    matrix = (left * np.geomspace(1.0, 0.01, size)) @ right
    for name, steps, low, high in (("quintic", 5, 0.68, 1.21), ("polar_express", 5, 0.8, 1.2)):
        inner = left.T @ orthogonalized(matrix[np.newaxis], name, steps)[0] @ right.T
        values = np.diag(inner)
        assert low < values.min() and values.max() < high, (name, values)
        np.testing.assert_allclose(inner, np.diag(values), atol=1e-3)
    exact = orthogonalized(matrix[np.newaxis], "polar_express", 10)[0]
    np.testing.assert_allclose(exact, optimizers_in_numpy.polar_factor(matrix), atol=1e-4)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("shape", [(6, 5), (16, 4), (4, 16)])
def test_extreme_matrices(shape, compiled):
    """Zero, rank one, huge, tiny and not finite, in one batch: each is treated by itself."""
    plain = random_matrices(shape)
    rank_one = np.outer(np.arange(1.0, 1 + shape[0]), np.arange(1.0, 1 + shape[1]))
    batch = np.stack([plain, np.zeros(shape), rank_one, 1e30 * plain, 1e-30 * plain, plain, plain])
    batch[5, 0, 0], batch[6, 0, 0] = np.nan, np.inf
    run = tf.function(lambda x: newton_schulz(x, [optimizers_in_numpy.QUINTIC] * 5), jit_compile=compiled)
    found = run(tf.constant(batch, tf.float32)).numpy()
    expected = optimizers_in_numpy.newton_schulz(plain)
    for index in (0, 3, 4):
        np.testing.assert_allclose(found[index], expected, atol=1e-4)
    np.testing.assert_array_equal(found[1], np.zeros(shape))
    np.testing.assert_allclose(found[2], optimizers_in_numpy.newton_schulz(rank_one), atol=2e-3)
    assert np.isnan(found[5:]).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("steps", [10, 20])
def test_many_steps_of_a_low_rank_stay_finite(name, steps):
    """Rounding gives the Gram matrix negative eigenvalues, which its iteration makes larger at each step."""
    matrix = random_matrices((128, 2), 3) @ random_matrices((2, 32), 4)
    found = orthogonalized(np.stack([matrix, matrix[::-1]]), name, steps)
    values = np.linalg.svd(found)[1]
    assert values.max() < 1.3 and values[:, :2].min() > 0.6


def test_the_coefficients_are_the_published():
    assert orthogonalization.coefficients("quintic", 3) == ((3.4445, -4.7750, 2.0315),) * 3
    for steps in (1, 5, 12):
        published = optimizers_in_numpy.polynomials("polar_express", steps)
        np.testing.assert_allclose(orthogonalization.coefficients("polar_express", steps), published, rtol=1e-15)
    # Jordan: the steepest at zero; Amsel: singular values from 1e-3 are within 1 +- 0.2 after five steps.
    values = np.geomspace(1e-3, 1.0, 200)
    for a, b, c in orthogonalization.coefficients("polar_express", 5):
        values = a * values + b * values**3 + c * values**5
    assert np.abs(values - 1.0).max() < 0.2
