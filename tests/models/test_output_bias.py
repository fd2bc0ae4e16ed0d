"""The logarithm of smoothed frequencies, against NumPy in float64, and what is no row of counts."""

import numpy as np
import pytest

from tfbigbatch.models.output_bias import log_frequencies


@pytest.mark.parametrize("smoothing", [0.0, 0.5, 1.0, 1e9])
@pytest.mark.parametrize("counts", [[7], [3, 1, 4, 1, 5], [0.25, 1e-3, 12.5], [1, 10**15, 3]])
def test_they_are_the_formula(counts, smoothing):
    smoothed = np.array(counts, np.float64) + smoothing
    found = log_frequencies(counts, smoothing)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, np.log(smoothed / smoothed.sum()), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.exp(found).sum(), 1.0, rtol=1e-12)


def test_a_class_that_never_occurs_is_as_rare_as_the_smoothing_says():
    np.testing.assert_allclose(np.exp(log_frequencies([0, 2, 0])), [0.2, 0.6, 0.2])
    np.testing.assert_allclose(log_frequencies([0, 0, 0, 0]), np.log(0.25))
    assert np.isfinite(log_frequencies([0, 1.7e308, 1.7e308])).all()


@pytest.mark.parametrize(
    "counts, smoothing, said",
    [
        ([], 1.0, r"counts have the shape \[0\]: expected one row of numbers, 0 or more"),
        ([[1, 2]], 1.0, r"counts have the shape \[1, 2\]"),
        (5, 1.0, r"counts have the shape \[\]"),
        ([1, -2], 1.0, r"counts\[1\]=-2.0"),
        ([1, float("nan")], 1.0, r"counts\[1\]=nan"),
        ([1, float("inf")], 1.0, r"counts\[1\]=inf"),
        (["a", "b"], 1.0, "counts=.*expected one row of numbers"),
        ([[1], [2, 3]], 1.0, "counts=.*expected one row of numbers"),
        ([True, False], 1.0, "counts are of dtype bool"),
        ([1, 2], -1.0, "smoothing=-1.0: expected a finite number, 0 or more"),
        ([1, 2], float("nan"), "smoothing=nan"),
        ([1, 2], "one", "smoothing='one'"),
        ([1, 2], True, "smoothing=True"),
        ([1, 0], 0, "smoothing=0: class 1 never occurs"),
    ],
)
def test_what_is_no_count_or_smoothing_is_refused(counts, smoothing, said):
    with pytest.raises(ValueError, match=said):
        log_frequencies(counts, smoothing)
