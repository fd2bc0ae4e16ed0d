import math

import pytest

from tests.helpers import made_rows, made_runs
from tfbigbatch.reports import collect
from tfbigbatch.reports.collect import Row, Run
from tfbigbatch.reports.summary import common_target, critical_batch, summarise
from tfbigbatch.runs.metric import Metric
from tfbigbatch.runs.metrics_log import Scalars

ACCURACY, PERPLEXITY = Metric("accuracy"), Metric("perplexity", higher_is_better=False)


def numbers(*states, **fields):
    return summarise([made_rows.row("a", *states, **fields)], ACCURACY)[0]


def test_mean_and_spread():
    whole = numbers(0.98, 0.96)
    assert whole["mean"] == pytest.approx(0.97) and whole["standard_deviation"] == pytest.approx(0.01414, rel=1e-3)
    assert whole["steps"] == 20 and whole["seconds"] == 3.5 and whole["values"] == [0.98, 0.96]
    assert numbers(0.98)["standard_deviation"] is None


def test_a_diverged_run_leaves_its_row_without_a_mean():
    row = numbers(0.80, "diverged")
    assert row["mean"] is None and row["values"] == [0.80, None] and row["status"] == ["done", "diverged"]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_run_that_ends_at_a_metric_which_is_not_finite_has_diverged(value):
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


def rows_of(tmp_path, metric, *bests):
    """A row for each list of its seeds' values, each at twice the batch of the one before; None is of a running one."""
    made = []
    for number, values in enumerate(bests):
        runs = []
        for seed, value in enumerate(values):
            directory = tmp_path / f"{number}-{seed}"
            curve = {} if value is None else {10: value, 20: value}
            made_runs.write(directory, {}, metric=metric.name, curve=curve)
            runs.append(Run(str(directory), seed, {}, {}, {"status": "running" if value is None else "done"}))
        made.append(Row(str(number), {"batch_size": 32 * 2**number}, runs))
    return made


def test_every_seed_of_half_of_the_rows_reaches_it(tmp_path):
    assert common_target(rows_of(tmp_path, ACCURACY, [0.99, 0.98], [0.9766, 0.99], [0.3, 0.2]), ACCURACY) == 0.976


def test_where_less_is_better_it_is_rounded_up(tmp_path):
    assert common_target(rows_of(tmp_path, PERPLEXITY, [115.81], [128.02], [494.0]), PERPLEXITY) == pytest.approx(129.0)


@pytest.mark.parametrize("bests", [[[0.9]], [[0.9], [None]], [[0.9, None], [0.8]]])
def test_it_takes_two_batch_sizes_that_have_ended(tmp_path, bests):
    assert common_target(rows_of(tmp_path, ACCURACY, *bests), ACCURACY) is None


def measured(tmp_path, train):
    made_runs.write(tmp_path, {}, train=train)
    return critical_batch(made_rows.row("LEGW", "running"), lambda run: Scalars(str(tmp_path)))


def noise(**values):
    return {f"noise_scale/{name}": value for name, value in values.items()}


def test_the_last_look_counts(tmp_path):
    looks = {5: noise(critical_batch_size=90.0), 10: noise(critical_batch_size=340.0, low=210.0, high=600.0)}
    found = measured(tmp_path, looks)
    assert (found.value, found.low, found.high, found.step) == (340.0, 210.0, 600.0, 10)
    assert found.shown == "LEGW at 512, step 10: 340 (210 to 600)"


def test_an_interval_may_be_open(tmp_path):
    found = measured(tmp_path, {10: noise(critical_batch_size=340.0, low=210.0)})
    assert found.high == math.inf and found.shown.endswith("(210 to ∞)")
