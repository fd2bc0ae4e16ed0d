import math
import types

import pytest

from tfbigbatch.optimizers.base import LayerStatistics
from tfbigbatch.scaling.blow_up import best_loss, largest_relative_update, loss_blew_up, lowered_gain


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


def test_the_gain_halves_the_rate_on_the_rise_and_beyond():
    assert lowered_gain(1.0, step=60, warmup_steps=100, safety=0.5) == pytest.approx(0.3)
    assert lowered_gain(1.0, step=150, warmup_steps=100, safety=0.5) == pytest.approx(0.5)
    assert lowered_gain(0.3, step=60, warmup_steps=100, safety=0.5) == pytest.approx(0.15)


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
