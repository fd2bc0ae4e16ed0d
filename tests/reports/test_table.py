import math

import pytest

from tests.helpers import made_runs
from tfbigbatch.reports import collect
from tfbigbatch.reports.collect import Row, Run
from tfbigbatch.reports.table import results_table, summarise
from tfbigbatch.run_directory.metric import Metric

ACCURACY = Metric("accuracy")


def row_of(name, *states, **numbers):
    """A Row without directories: a state is a value at the end, or words for a status."""
    config = {"task": "digits_lstm", "batch_size": 512, "evaluate_on": "test"}
    runs = []
    for seed, state in enumerate(states):
        content = {"step": 20, "total_steps": 20, "seconds": 3.0 + seed, **numbers}
        if isinstance(state, float):
            content |= {"status": "done", "metrics": {"accuracy": state}}
        else:
            content = {} if state == "not started" else {**content, "status": state}
        runs.append(Run("", seed, config, made_runs.VERSIONS, content))
    return Row(name, config, runs)


def numbers(*states, **fields):
    return summarise([row_of("a", *states, **fields)], ACCURACY)[0]


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


def lines(*rows, metric=ACCURACY, **options):
    made = results_table(summarise(rows, metric, options.get("target")), metric, **options).markdown()
    assert len({len(line) for line in made}) == 1
    return made


def test_it_is_markdown_with_mean_and_spread():
    made = lines(row_of("small", 0.98, 0.96), row_of("naive", 0.6, 0.7))
    assert "mean ± s.d. of 2 seeds" in made[0] and "seeds |" not in made[0].replace("2 seeds |", "")
    assert set(made[1]) == set("|-: ") and "97.00% ± 1.41%" in made[2]
    assert "s.d." not in lines(row_of("small", 0.98))[0]


def test_divergence_and_what_is_missing_show():
    made = lines(
        row_of("all gone", "diverged"),
        row_of("one gone", 0.9, "diverged"),
        row_of("partial", 0.98, 0.96, "running"),
        row_of("going", "running", step=9),
        row_of("cut off", "preempted", step=5),
        row_of("waiting", "not started", "not started"),
    )
    assert "seeds" in made[0]
    for line, words in zip(
        made[2:],
        (
            ("diverged",),
            ("1 of 2 diverged",),
            ("97.00%", "2 of 3"),
            ("running at 45%", "0 of 1"),
            ("stopped at 25%",),
            ("not started", "0 of 2"),
        ),
    ):
        assert all(word in line for word in words), line


def test_the_target_has_a_column():
    made = lines(row_of("small", 0.98), row_of("waiting", "not started"), target=0.99, heading="method")
    assert "| method " in made[0] and "steps to 99%" in made[0]
    assert "never" in made[2] and "never" not in made[3]
