import numpy as np
import pytest

from tfbigbatch.instruments.hutchinson import hutchinson_trace


def test_the_trace_lies_within_its_standard_error():
    random = np.random.RandomState(0)
    matrix = random.normal(size=(60, 60))
    matrix = matrix + matrix.T + 2.0 * np.eye(60)
    estimate, error = hutchinson_trace(lambda vector: matrix @ vector, 60, samples=400)
    # The variance of v' A v is twice the sum of the squares beside the diagonal.
    expected = np.sqrt(2.0 * ((matrix**2).sum() - (np.diag(matrix) ** 2).sum()) / 400)
    assert error == pytest.approx(expected, rel=0.15)
    assert abs(estimate - np.trace(matrix)) < 3 * error


def test_a_diagonal_is_known_exactly():
    assert hutchinson_trace(lambda vector: np.arange(5) * vector, 5, samples=2) == (10.0, 0.0)


def test_one_sample_has_no_spread():
    with pytest.raises(ValueError, match="samples=1: a standard error needs 2 or more"):
        hutchinson_trace(lambda vector: vector, 3, samples=1)
