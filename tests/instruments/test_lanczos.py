import numpy as np
import pytest

from tfbigbatch.instruments.lanczos import hutchinson_trace, largest_eigenvalues


def symmetric(eigenvalues, seed=0):
    """A matrix of these eigenvalues, in a random basis."""
    size = len(eigenvalues)
    basis, _ = np.linalg.qr(np.random.RandomState(seed).normal(size=(size, size)))
    return (basis * eigenvalues) @ basis.T


def times(matrix):
    return lambda vector: matrix @ vector


@pytest.mark.parametrize(
    "eigenvalues",
    [
        np.linspace(-3.0, 5.0, 12),
        1.0 / np.arange(1, 200) ** 2,
        # As of networks: a few that stand apart, and a bulk around 0 with both signs.
        np.concatenate([[50.0, 20.0, 7.0], np.random.RandomState(1).normal(size=150)]),
    ],
    ids=["small", "decaying", "outliers"],
)
def test_the_largest_are_found_within_their_bounds(eigenvalues):
    found = largest_eigenvalues(times(symmetric(eigenvalues)), len(eigenvalues), 3, iterations=40)
    expected = np.sort(eigenvalues)[::-1][:3]
    np.testing.assert_allclose(found.values, expected, rtol=1e-3)
    assert (np.abs(found.values - expected) <= found.errors + 1e-5 * expected[0]).all()
    assert found.products < 40


@pytest.mark.parametrize("eigenvalues", [[3.0, 3.0, 1.0], [2.0] * 5, [0.0] * 4, [-1.0, -2.0, -3.0], [4.0]])
def test_a_space_that_is_exhausted_gives_eigenvalues_as_often_as_they_occur(eigenvalues):
    count = min(3, len(eigenvalues))
    found = largest_eigenvalues(times(symmetric(eigenvalues)), len(eigenvalues), count)
    np.testing.assert_allclose(found.values, np.sort(eigenvalues)[::-1][:count], rtol=1e-4, atol=1e-5)


def test_too_few_iterations_are_told_by_the_bounds():
    eigenvalues = np.linspace(0.9, 1.0, 150)
    found = largest_eigenvalues(times(symmetric(eigenvalues)), 150, 1, iterations=4)
    assert found.products == 4 and found.errors[0] > 1e-3
    assert abs(found.values[0] - 1.0) <= found.errors[0]


def test_the_trace_lies_within_its_standard_error():
    random = np.random.RandomState(0)
    matrix = random.normal(size=(60, 60))
    matrix = matrix + matrix.T + 2.0 * np.eye(60)
    estimate, error = hutchinson_trace(lambda vector: matrix @ vector, 60, samples=400)
    # The variance of v' A v is twice the sum of the squares beside the diagonal.
    expected = np.sqrt(2.0 * ((matrix**2).sum() - (np.diag(matrix) ** 2).sum()) / 400)
    assert error == pytest.approx(expected, rel=0.15)
    assert abs(estimate - np.trace(matrix)) < 3 * error
