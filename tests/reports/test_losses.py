"""The losses of runs and their parts."""

import functools
import json
import math

import numpy as np
import pytest

from tfbigbatch.reports import losses
from tfbigbatch.reports.collect import Row
from tfbigbatch.reports.losses import LossCurve, RunLoss, parts_by_row


def curve_of(values, every=1):
    return LossCurve([every * (n + 1) for n in range(len(values))], values)


def test_a_loss_is_averaged_over_a_fiftieth_of_the_run():
    values = np.random.RandomState(0).normal(size=200)
    smoothed = curve_of(values).smoothed()
    assert smoothed.losses[10] == pytest.approx(values[7:11].mean())
    assert smoothed.losses[1] == pytest.approx(values[:2].mean())
    assert curve_of([3.0, 2.0, 1.0], every=100).smoothed().losses == [3.0, 2.0, 1.0]


@pytest.mark.parametrize(
    "values, every, expected",
    [
        ([5.0] * 10 + [3.0] * 30, 1, (10, 11)),
        ([5.0] * 10 + [3.0] * 30, 5, (50, 55)),
        # Steps above the line count also after the first below; a loss that is not finite is above it.
        ([5.0, 3.0, 5.0, 5.0, 3.0], 1, (3, 2)),
        ([5.0, math.nan, 4.0], 1, (3, None)),
    ],
)
def test_the_plateau_ends_where_the_loss_is_below_the_line(values, every, expected):
    assert curve_of(values, every).above(4.0) == expected


def run_loss(row, batch_size, bias=None, twin=None, *, seed=0, losses=(5.0, 4.0, 3.0), train=3.0, held_out=3.2):
    """The losses of a run that was never trained."""
    return RunLoss(row, batch_size, seed, len(losses), bias, twin, 4.5, curve_of(losses), train, held_out)


RUNS = [
    run_loss("small", 20, "uniform", "small, bias", train=4.0, held_out=4.2),
    run_loss("small, bias", 20, "frequency", "small", train=3.9, held_out=4.1),
    run_loss("large", 80, "uniform", "large, bias", train=6.0, held_out=6.1),
    run_loss("large, bias", 80, "frequency", "large", train=5.0, held_out=5.3),
    run_loss("alone", 80, "uniform", None, train=5.5, held_out=5.5),
]


@pytest.mark.parametrize("baseline", ["small", "small, bias"])
def test_a_row_is_compared_with_the_small_batch_of_its_own_bias(baseline):
    parts = parts_by_row(RUNS, baseline)
    assert list(parts) == ["large", "large, bias", "alone"]
    assert parts["large"].plateau == pytest.approx(1.0 - 0.1)
    assert parts["large"].path == pytest.approx(1.1)
    assert parts["large"].overfitting == pytest.approx(0.1 - 0.2)
    assert parts["large"].total == pytest.approx(6.1 - 4.2)
    # With the bias, and without a twin, there is no plateau to be told from the path.
    assert parts["large, bias"].plateau is None and parts["alone"].plateau is None
    assert parts["large, bias"].path == pytest.approx(1.1) and parts["alone"].path == pytest.approx(1.5)


def test_a_bias_without_a_small_batch_has_nothing_to_be_compared_with():
    assert list(parts_by_row([run for run in RUNS if run.row != "small"], "small, bias")) == ["large, bias"]


def test_seeds_are_averaged():
    seeds = [run_loss("large, bias", 80, "frequency", None, seed=seed, train=5.0 + seed) for seed in (0, 1)]
    assert parts_by_row([RUNS[1], *seeds], "small, bias")["large, bias"].path == pytest.approx(5.5 - 3.9)


def row(name, bias, batch_size=16, rate=0.1, **model):
    config = {"task": "gnmt", "batch_size": batch_size, "seed": 0, "model": {"output_bias": bias, **model}}
    return Row(name, {**config, "schedule": {"learning_rate": rate}}, [])


def test_twins_differ_in_their_bias_only_and_one_of_the_same_learning_rate_comes_first():
    rows = [row("a", "zero"), row("b", "uniform"), row("c", "frequency"), row("other", "frequency", hidden_units=2)]
    assert [each.twin for each in losses.named(rows)] == ["c", "c", "a", None]
    rows = [row("a", "zero"), row("b", "frequency", rate=0.2), row("c", "frequency"), row("d", "zero", rate=0.4)]
    assert [each.twin for each in losses.named(rows)] == ["c", "a", "a", "b"]


def test_names_are_unique():
    found = losses.named([row("Muon", "zero", 16), row("Muon", "zero", 1024), row("LAMB", "zero")])
    assert [each.name for each in found] == ["Muon at 16", "Muon at 1,024", "LAMB"]


def test_the_file_keeps_the_runs_and_a_damaged_one_is_refused(tmp_path):
    path = str(tmp_path / "runs.jsonl")
    read = functools.partial(losses.read_lines, path, losses.RunLoss.from_json, command="report --explain")
    assert read() == []
    run = run_loss("large", 80, "uniform", None, losses=(5.0, float("nan")), held_out=math.inf)
    losses.write_lines(path, [run.to_json()])
    [again] = read()
    assert again.curve.losses[0] == 5.0 and np.isnan(again.curve.losses[1])
    assert {**vars(again), "curve": None} == {**vars(run), "curve": None}
    for damaged in ('{"row": "large"}', json.dumps({**run.to_json(), "held_out": "low"})):
        (tmp_path / "runs.jsonl").write_text(damaged + "\n")
        with pytest.raises(ValueError, match="tfbigbatch report --explain wrote"):
            read()
