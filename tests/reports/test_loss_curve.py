import math

import numpy as np
import pytest

from tfbigbatch.reports.loss_curve import LossCurve, plateau_of


def rows(losses, every=1, scalar="loss"):
    return [{"step": every * (n + 1), "split": "train", scalar: loss} for n, loss in enumerate(losses)]


def test_the_curve_is_the_training_scalar_per_token():
    log = [*rows([26.0, 13.0, None], every=4), {"step": 12, "split": "eval", "loss": 1.0}]
    curve = LossCurve.of_rows(log, "loss", tokens=13.0)
    assert curve.steps == [4, 8, 12] and curve.losses[:2] == [2.0, 1.0] and math.isnan(curve.losses[2])


def test_a_loss_is_averaged_over_a_fiftieth_of_the_run():
    losses = np.random.RandomState(0).normal(size=200)
    smoothed = LossCurve.of_rows(rows(losses), "loss").smoothed()
    assert smoothed.losses[10] == pytest.approx(losses[7:11].mean())
    assert smoothed.losses[1] == pytest.approx(losses[:2].mean())


def test_long_windows_stay_as_they_are():
    assert LossCurve.of_rows(rows([3.0, 2.0, 1.0], every=100), "loss").smoothed().losses == [3.0, 2.0, 1.0]


@pytest.mark.parametrize("every", [1, 5])
def test_the_plateau_ends_where_the_loss_is_below_the_line(every):
    falling = LossCurve.of_rows(rows([5.0] * 10 + [3.0] * 30, every), "loss")
    found = plateau_of(falling, 4.0)
    assert (found.first_below, found.steps, found.share) == (11 * every, 10 * every, 0.25)


def test_steps_above_the_line_count_also_after_the_first_below():
    found = plateau_of(LossCurve.of_rows(rows([5.0, 3.0, 5.0, 5.0, 3.0]), "loss"), 4.0)
    assert (found.first_below, found.steps) == (2, 3)


def test_a_run_may_never_leave_it():
    found = plateau_of(LossCurve.of_rows(rows([5.0, None, 4.0]), "loss"), 4.0)
    assert (found.first_below, found.steps, found.share) == (None, 3, 1.0)
