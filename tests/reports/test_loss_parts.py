import json

import numpy as np
import pytest

from tests.helpers.made_losses import run_loss
from tfbigbatch.reports.loss_parts import Losses, RunLoss, decompose, parts_of


def test_the_parts_are_those_of_the_formulas_and_add_up():
    random = np.random.RandomState(0)
    for _ in range(10):
        large, large_biased, small, small_biased = (Losses(*random.uniform(1, 7, size=2)) for _ in range(4))
        parts = decompose(large, small, large_biased, small_biased)
        assert parts.plateau == pytest.approx(large.train - large_biased.train - small.train + small_biased.train)
        assert parts.path == pytest.approx(large_biased.train - small_biased.train)
        assert parts.total == pytest.approx(large.held_out - small.held_out)


RUNS = [
    run_loss("small", 20, "uniform", "small, bias", train=4.0, held_out=4.2),
    run_loss("small, bias", 20, "frequency", "small", train=3.9, held_out=4.1),
    run_loss("large", 80, "uniform", "large, bias", train=6.0, held_out=6.1),
    run_loss("large, bias", 80, "frequency", "large", train=5.0, held_out=5.3),
    run_loss("alone", 80, "uniform", None, train=5.5, held_out=5.5),
]


@pytest.mark.parametrize("baseline", ["small", "small, bias"])
def test_a_row_is_compared_with_the_small_batch_of_its_own_bias(baseline):
    parts = parts_of(RUNS, baseline)
    assert list(parts) == ["large", "large, bias", "alone"]
    assert parts["large"].plateau == pytest.approx(1.0 - 0.1)
    assert parts["large"].path == pytest.approx(1.1)
    assert parts["large"].overfitting == pytest.approx(0.1 - 0.2)
    assert parts["large"].total == pytest.approx(6.1 - 4.2)
    # With the bias there is no plateau to be spared.
    assert parts["large, bias"].plateau is None
    assert parts["large, bias"].path == pytest.approx(1.1)
    assert parts["large, bias"].total == pytest.approx(5.3 - 4.1)


def test_without_a_twin_the_plateau_is_in_the_path():
    alone = parts_of(RUNS, "small")["alone"]
    assert alone.plateau is None and alone.path == pytest.approx(1.5)


def test_a_bias_without_a_small_batch_has_nothing_to_be_compared_with():
    assert list(parts_of([run for run in RUNS if run.row != "small"], "small, bias")) == ["large, bias"]


def test_seeds_are_averaged():
    seeds = [run_loss("large, bias", 80, "frequency", None, seed=seed, train=5.0 + seed) for seed in (0, 1)]
    parts = parts_of([RUNS[1], *seeds], "small, bias")
    assert parts["large, bias"].path == pytest.approx(5.5 - 3.9)


def test_a_run_is_the_same_after_a_file():
    run = run_loss("large", 80, "uniform", None, losses=(5.0, float("nan")))
    again = RunLoss.from_json(json.loads(json.dumps(run.to_json())))
    assert again.curve.losses[0] == 5.0 and np.isnan(again.curve.losses[1])
    assert {**vars(again), "curve": None} == {**vars(run), "curve": None}
