import math

import pytest

from tests.helpers import made_rows, made_runs
from tfbigbatch.reports import collect
from tfbigbatch.reports.summary import summarise
from tfbigbatch.runs.metric import Metric

ACCURACY = Metric("accuracy")


def numbers(*states, **fields):
    return summarise([made_rows.row("a", *states, **fields)], ACCURACY)[0]


def test_mean_and_spread():
    whole = numbers(0.98, 0.96)
    assert whole["mean"] == pytest.approx(0.97) and whole["standard_deviation"] == pytest.approx(0.01414, rel=1e-3)
    assert whole["steps"] == 20 and whole["seconds"] == 3.5 and whole["values"] == [0.98, 0.96]
    assert numbers(0.98)["standard_deviation"] is None


@pytest.mark.parametrize("value", ["diverged", math.nan, math.inf])
def test_a_run_that_diverged_or_ends_at_a_metric_which_is_not_finite_leaves_its_row_without_a_mean(value):
    row = numbers(0.80, value)
    assert row["mean"] is None and row["values"] == [0.80, None] and row["status"] == ["done", "diverged"]


def test_the_mean_is_of_the_runs_that_have_finished():
    row = numbers(0.98, 0.96, "running", "not started")
    assert row["mean"] == pytest.approx(0.97) and row["values"] == [0.98, 0.96, None, None]
    assert numbers("not started")["steps"] is None and numbers("not started")["seconds"] is None
    assert numbers("preempted", step=5)["progress"] == 0.25


@pytest.mark.parametrize(
    "higher, values, target", [(True, (0.9, 0.97, 0.99), 0.96), (False, (200.0, 130.0, 110.0), 140.0)]
)
def test_updates_to_the_target(tmp_path, higher, values, target):
    metric = Metric("accuracy" if higher else "perplexity", higher)
    config = {"task": "digits_lstm", "batch_size": 32, "seed": 0}
    for seed, steps in enumerate(((10, 20, 40), (10, 30, 40))):
        made_runs.write(
            tmp_path / f"{seed}",
            {**config, "seed": seed},
            values[-1],
            curve=dict(zip(steps, values)),
            steps=40,
            seconds=8.0,
            metric=metric.name,
        )
    rows = collect.found_in([str(tmp_path)])
    (reached,) = summarise(rows, metric, target)
    assert reached["updates_to_target"] == 25
    (never,) = summarise(rows, metric, 1.0)
    assert never["updates_to_target"] is None
