"""The batch arithmetic, and the calls of `fit` that a run is divided into."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfbigbatch.training.plan import BatchArithmetic, fit_segments


@pytest.mark.parametrize(
    "arguments, said",
    [
        ((500, 4, 2, 1437), "does not divide by 4 accumulation steps x 2 replicas = 8. The nearest that does: 496"),
        ((2048, 1, 1, 1437), "batch_size=2048 is larger than the training set of 1437 examples"),
        ((0, 1, 1, 1437), "both are at least 1"),
    ],
)
def test_what_cannot_be_split_is_refused(arguments, said):
    with pytest.raises(ValueError, match=said):
        BatchArithmetic(*arguments)


def ends(segments):
    return [start + length * (number + 1) for start, length, epochs in segments for number in range(epochs)]


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ((0, 112, (10, 10)), [(0, 10, 11), (110, 2, 1)]),
        ((0, 12, (3, 6)), [(0, 3, 4)]),
        ((7, 20, (5,)), [(7, 3, 1), (10, 5, 2)]),
        ((0, 10, (0,)), [(0, 10, 1)]),
        ((10, 10, (3,)), []),
        ((0, 7, (100,)), [(0, 7, 1)]),
    ],
)
def test_segments_of_known_cases(arguments, expected):
    assert fit_segments(*arguments) == expected


@given(first=st.integers(0, 60), length=st.integers(0, 60), periods=st.lists(st.integers(0, 20), max_size=3))
def test_intervals_end_at_every_multiple_and_cover_each_step_once(first, length, periods):
    last = first + length
    found = ends(fit_segments(first, last, periods))
    due = {step for step in range(first + 1, last) for period in periods if period and step % period == 0}
    assert found == sorted(due | ({last} if length else set()))
