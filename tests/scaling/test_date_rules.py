import math
import types

import pytest

from tfbigbatch.optimizers.base import LayerStatistics
from tfbigbatch.scaling import Recipe
from tfbigbatch.scaling.date_rules import (
    best_loss,
    largest_relative_update,
    loss_blew_up,
    noise_gain,
    rate_growth,
)

TUNED = Recipe(batch_size=64, learning_rate=0.1, warmup_epochs=0.5)


def test_much_noise_is_the_linear_rule_and_none_keeps_the_rate():
    assert rate_growth(math.inf, tuned_batch=64, batch=1024) == 16.0
    assert rate_growth(1e12, tuned_batch=64, batch=1024) == pytest.approx(16.0)
    assert rate_growth(0.0, tuned_batch=64, batch=1024) == 1.0
    assert rate_growth(1024.0, tuned_batch=64, batch=1024) == pytest.approx((1 + 16) / 2)


def test_legw_is_kept_from_the_geometric_mean_of_the_batches_on():
    peak = TUNED.at(1024).learning_rate
    middle = math.sqrt(64 * 1024)
    assert noise_gain(middle, TUNED, batch_size=1024, peak=peak) == pytest.approx(1.0)
    assert noise_gain(1.1 * middle, TUNED, batch_size=1024, peak=peak) == 1.0
    assert noise_gain(0.9 * middle, TUNED, batch_size=1024, peak=peak) < 1.0


def test_the_gain_is_bounded():
    assert noise_gain(0.0, TUNED, batch_size=1024, peak=0.4) == pytest.approx(0.25)
    assert noise_gain(math.inf, TUNED, batch_size=1024, peak=0.4, highest=1.5) == 1.5
    assert noise_gain(64.0, TUNED, batch_size=64, peak=0.1) == 1.0


@pytest.mark.parametrize(
    "loss, best, blown",
    [
        (1.49, 1.0, False),
        (1.51, 1.0, True),
        (math.nan, 1.0, True),
        (math.inf, 1.0, True),
        (0.01, 1e-6, False),
        (0.2, 1e-6, True),
        (5.0, math.inf, False),
        (math.nan, math.inf, True),
        (math.nan, math.nan, False),
        (5.0, math.nan, False),
    ],
)
def test_the_loss(loss, best, blown):
    assert loss_blew_up(loss, best=best, first=10.0, factor=1.5) is blown


def test_the_best_begins_anew_after_a_blow_up_and_after_a_loss_that_was_lost():
    assert best_loss(3.0, best=math.inf, blew_up=False) == 3.0
    assert best_loss(3.0, best=2.0, blew_up=False) == 2.0
    assert best_loss(3.0, best=2.0, blew_up=True) == 3.0
    assert math.isnan(best_loss(math.inf, best=2.0, blew_up=True))
    assert best_loss(3.0, best=math.nan, blew_up=False) == 3.0


def test_the_largest_relative_update_is_over_the_adapted_layers():
    rows = {
        "adapted": LayerStatistics(0.5, 4.0, 1.0),
        "moved": LayerStatistics(2.0, 2.0, 3.0),
        "excluded": LayerStatistics(1.0, 1.0, 9.0),
        "zero": LayerStatistics(1.0, 0.0, 1.0),
    }
    assert largest_relative_update(types.SimpleNamespace(layer_statistics=lambda: rows)) == 1.5
    assert largest_relative_update(types.SimpleNamespace()) is None

    def none_kept():
        raise ValueError("keeps no statistics")

    assert largest_relative_update(types.SimpleNamespace(layer_statistics=none_kept)) is None
