"""Which learning rate is tried next, on made-up losses of the learning rate."""

import math

import pytest

from tfbigbatch.studies.learning_rate_search import EXTRA, best_learning_rate, is_at_end, next_learning_rates

FIRST = (0.01, 0.1, 1.0)


def searched(loss, budget=5, first=FIRST):
    """The results of a whole search, in the order of the trials."""
    results = {}
    while rates := next_learning_rates(first, results, budget):
        assert not set(rates) & set(results)
        results |= {rate: loss(rate) for rate in rates}
    return results


def valley(middle):
    return lambda rate: abs(math.log(rate / middle))


def test_the_first_rates_come_from_the_middle_out():
    assert next_learning_rates(FIRST, {}, 5) == [0.1, 0.01, 1.0]
    assert next_learning_rates(FIRST, {0.1: 1.0}, 5) == [0.01, 1.0]
    assert next_learning_rates(FIRST, {}, 1) == [0.1] and next_learning_rates(FIRST, {0.1: 1.0}, 1) == []


def test_a_best_inside_is_approached_from_both_sides():
    # Towards the better neighbour, and then in the wider gap.
    assert list(searched(valley(0.2))) == [0.1, 0.01, 1.0, 0.32, 0.18]
    assert list(searched(valley(0.05))) == [0.1, 0.01, 1.0, 0.032, 0.057]


@pytest.mark.parametrize("middle", [0.02, 0.1, 0.7, 6.0, 0.0008])
def test_every_method_has_the_same_number_of_trials_and_its_best_inside(middle):
    results = searched(valley(middle))
    assert len(results) == 5 and not is_at_end(results)
    assert abs(math.log(best_learning_rate(results) / middle)) < math.log(3.3)
    assert max(results) / min(results) >= 100


def test_a_best_at_the_end_is_followed_for_some_trials_more():
    results = searched(lambda rate: -rate)
    assert list(results) == [0.1, 0.01, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5]
    assert len(results) == 5 + EXTRA and is_at_end(results)


def test_a_diverged_trial_is_the_worst_and_ties_go_to_the_lowest():

    assert next_learning_rates(FIRST, dict.fromkeys(FIRST, math.inf), 5) == [0.001]
    assert best_learning_rate({0.1: math.inf, 0.01: math.inf}) == 0.01


def test_a_smaller_budget_ends_sooner():
    assert list(searched(valley(0.1), budget=3)) == [0.1, 0.01, 1.0]
    assert list(searched(valley(0.1), budget=2)) == [0.1, 0.01]
