"""Successive halving: the rungs that a budget pays, what they cost, and who stays at each."""

import math

import pytest

from tfbigbatch.errors import InputError
from tfbigbatch.tuning import halving
from tfbigbatch.tuning.halving import Rungs, cost_of, loss_before, noise, staying

SHARES, STAY = (0.1, 0.4), (0.5, 0.25)


def test_the_cost_is_that_of_the_steps_between_rungs():
    assert cost_of(8, (0.05, 0.15, 0.3), (6, 4, 2)) == pytest.approx(8 * 0.05 + 6 * 0.1 + 4 * 0.15 + 2 * 0.7)
    assert cost_of(3, (), ()) == 3.0
    assert cost_of(4, (0.4,), (2,), done=0.1) == pytest.approx(4 * 0.3 + 2 * 0.6)
    assert Rungs(8, (0.15, 0.3), (4, 2)).cost == pytest.approx(3.2)


@pytest.mark.parametrize("budget", [1, 1.5, 2, 3, 4.7, 10])
@pytest.mark.parametrize("shares, stay", [(halving.SHARES, halving.STAY), (SHARES, STAY), ((), ())])
def test_a_budget_pays_as_many_candidates_as_it_can_with_a_reserve(budget, shares, stay):
    found = Rungs.of_budget(budget, shares, stay)
    most = (1.0 - halving.RESERVE) * budget
    assert found.cost <= most + 1e-9 or found.first == 1
    more = found.first + 1
    keep = [max(1, round(each * more)) for each in stay]
    assert cost_of(more, shares, keep) > most
    for kept, each in zip(found.keep, stay):
        assert kept == max(1, round(each * found.first))


def test_the_smallest_budget_is_one_run_and_later_rungs_keep_no_more_than_earlier_ones():
    assert Rungs.of_budget(1) == Rungs(1, halving.SHARES, (1,) * len(halving.SHARES))
    found = Rungs.of_budget(3, (0.1, 0.2), (0.25, 0.5))
    assert found.keep == (found.keep[0],) * 2


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Rungs(8, SHARES, (4,)), r"keep=\(4,\), shares=\(0.1, 0.4\), first=8; expected for each share"),
        (lambda: Rungs(8, SHARES, (2, 4)), r"keep=\(2, 4\).*none more than before"),
        (lambda: Rungs(2, SHARES, (4, 2)), "first=2; expected"),
        (lambda: Rungs(0, (), ()), "Rungs: first=0 is out of range"),
        (lambda: Rungs(4, SHARES, (2, 0)), r"Rungs: keep\[1\]=0 is out of range"),
        (lambda: Rungs(4, (0.4, 0.1), (2, 1)), r"rungs=\(0.4, 0.1\); expected rising shares of a run"),
        (lambda: Rungs(4, (0.4, 1.0), (2, 1)), "rungs=1.0 is out of range"),
        (lambda: Rungs(4, "0.1", (2,)), "rungs='0.1' is not a sequence"),
        (lambda: Rungs.of_budget(0.9), "budget=0.9 is out of range; expected 1 or more runs"),
        (lambda: Rungs.of_budget(3, SHARES, (0.5,)), r"stay=\[0.5\], shares=\[0.1, 0.4\]; expected one share"),
        (lambda: Rungs.of_budget(3, SHARES, (0.5, 0.0)), "stay=0.0 is out of range"),
    ],
)
def test_rungs_that_cannot_be_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_what_a_budget_leaves_is_room_for_more_until_the_next_rung():
    rungs = Rungs(8, SHARES, (4, 2))
    assert rungs.rest(0) == pytest.approx(4 * 0.3 + 2 * 0.6) and rungs.rest(1) == pytest.approx(2 * 0.6)
    assert [rungs.room(0, rungs.rest(0) + left) for left in (-1.0, 0.0, 0.29, 0.3, 0.7)] == [0, 0, 0, 1, 2]
    assert rungs.room(1, 1.2 + 0.6) == 1


def test_the_rows_before_a_step_count():
    curve = [(step, 10.0 - step / 10) for step in range(1, 101)]
    # 4% of 100 steps.
    assert loss_before(curve, 50, 100) == [loss for step, loss in curve if 46 < step <= 50]
    assert loss_before(curve, 2, 100) == [9.9, 9.8]
    # Rows that are farther apart than the window: the last one.
    assert loss_before([(20, 3.0), (40, 2.0), (60, 1.0)], 50, 100) == [2.0]
    # A run that is shorter than the window's rows has steps of 1.
    assert loss_before([(1, 3.0), (2, 2.0)], 2, 5) == [2.0]


@pytest.mark.parametrize("curve", [[], [(60, 1.0)], [(48, 1.0), (50, math.nan)], [(49, math.inf), (50, 1.0)]])
def test_a_curve_without_a_finite_loss_at_a_step_is_the_worst(curve):
    assert loss_before(curve, 50, 100) == [math.inf]


def test_a_loss_that_was_not_finite_long_before_is_forgotten():
    assert loss_before([(10, math.nan), (50, 1.0)], 50, 100) == [1.0]


def test_the_noise_is_that_of_the_difference_on_the_same_examples():
    assert noise([1.0, 2.0, 3.0], [0.5, 1.5, 2.5]) == 0.0
    assert noise([1.0, 2.0], [0.0, 2.0]) == pytest.approx(0.5)
    for other in ([1.0], [1.0, 2.0, 3.0], [1.0, math.inf]):
        assert noise([1.0, 2.0], other) == 0.0
    assert noise([1.0], [2.0]) == 0.0


def test_the_lowest_losses_stay_in_their_order_and_equal_ones_by_number():
    losses = {0: [3.0], 1: [1.0, 2.0], 2: [1.5], 3: [0.5], 4: [math.inf]}
    assert staying(losses, 1) == [3]
    assert staying(losses, 2) == [3, 1]
    assert staying(losses, 3) == [3, 1, 2]
    # None of those that diverged.
    assert staying(losses, 5, room=3) == [3, 1, 2, 0]
    assert staying({0: [math.inf], 1: [math.inf]}, 1) == []


def test_room_is_for_those_within_the_noise_of_the_last_that_stays():
    close, far = [1.1, 1.0, 1.3, 1.2], [2.0, 2.1, 2.2, 2.3]
    losses = {0: [1.0, 1.1, 1.2, 1.2], 1: close, 2: list(reversed(close)), 3: far}
    assert staying(losses, 1) == [0]
    assert staying(losses, 1, room=1) == [0, 1]
    assert staying(losses, 1, room=3) == [0, 1, 2]
    # Their only row says nothing of the noise, and a difference of 0 is not below none.
    assert staying({0: [1.0], 1: [1.0], 2: [1.1]}, 1, room=2) == [0]
