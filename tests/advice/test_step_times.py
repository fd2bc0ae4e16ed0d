"""Times of a step: which sizes are measured, and what is planned from them."""

import pytest

from tfbigbatch.advice import step_times
from tfbigbatch.advice.step_times import StepTimes


def quiet(line):
    del line


def test_all_sizes_are_timed_in_turn():
    seen = []
    times = step_times.measure(lambda size: lambda: seen.append(size), [8, 16], seconds=0.05, say=quiet)
    assert set(times.turns) == {8, 16} and len(times.turns[8]) == len(times.turns[16]) >= 3
    switches = sum(before != after for before, after in zip(seen, seen[1:]))
    assert switches >= 2 * 3 - 1


def test_a_size_that_does_not_fit_ends_the_list():
    def step_at(size):
        if size > 16:
            raise MemoryError
        return lambda: None

    times = step_times.measure(step_at, [8, 16, 32], seconds=0.05, say=quiet)
    assert list(times.turns) == [8, 16] and times.stopped == "32 took more memory than there is"


def test_another_error_is_raised():
    def step_at(size):
        raise KeyError(size)

    with pytest.raises(KeyError):
        step_times.measure(step_at, [8], seconds=0.05, say=quiet)


def test_a_step_is_planned_with_the_fastest_micro_batch():
    times = StepTimes({8: [2.0, 1.0, 9.0], 16: [3.0], 32: [9.0]}, "")
    assert times.median(8) == 2.0
    assert times.planned(16) == (3.0, 1)
    assert times.planned(32) == (6.0, 2)  # in halves of 16
    assert times.planned(64, replicas=8) == (2.0, 1)
    assert times.planned(4) == (2.0, 1)  # less than was measured
