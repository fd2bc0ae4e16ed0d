import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfbigbatch.training.segments import fit_segments


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
def test_known_cases(arguments, expected):
    assert fit_segments(*arguments) == expected


@given(first=st.integers(0, 60), length=st.integers(0, 60), periods=st.lists(st.integers(0, 20), max_size=3))
def test_intervals_end_at_every_multiple_and_cover_each_update_once(first, length, periods):
    last = first + length
    found = ends(fit_segments(first, last, periods))
    due = {step for step in range(first + 1, last) for period in periods if period and step % period == 0}
    assert found == sorted(due | ({last} if length else set()))
