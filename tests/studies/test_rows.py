"""Rows with trials: the choice of the next learning rate, and studies on a made-up run in place of the trainer."""

import math

import pytest

from tests.helpers import made_runs
from tfbigbatch import experiment, optimizers
from tfbigbatch.errors import DivergedError
from tfbigbatch.reports.report import Report
from tfbigbatch.studies import study
from tfbigbatch.studies.results_cache import ResultsCache
from tfbigbatch.studies.rows import EXTRA, best_learning_rate, is_at_end, next_learning_rates
from tfbigbatch.studies.series import restore, run_rows, run_series

RATES = (0.01, 0.1, 1.0)
BEST = {"momentum": 0.2, "adamw": 0.0005}
runs = []


def made_up_run(config, *, model_dir, data_dir):
    """An accuracy that falls with the distance of the learning rate to the optimizer's best."""
    rate = config.schedule.learning_rate
    runs.append((config.optimizer.name, rate, config.evaluate_on, config.seed))
    if rate > 0.5:
        made_runs.write(model_dir, config.to_dict(), status="diverged")
        raise DivergedError("the run diverged: loss became nan.")
    distance = abs(math.log(rate / BEST.get(config.optimizer.name, 0.1)))
    made_runs.write(model_dir, config.to_dict(), 0.9 - 0.1 * distance)


@pytest.fixture
def table():
    runs.clear()
    made = study.new("Digits", template="AdamW")
    for name, fields in (("AdamW", {"name": "adamw", "weight_decay": 0.1}), ("SGD", {"name": "momentum"})):
        config = experiment.new("digits_lstm")
        config.optimizer = fields
        trial = experiment.new("digits_lstm")
        trial.optimizer, trial.evaluate_on, trial.data.minival = fields, "minival", 100
        made.tune(name, config, trial=trial, learning_rates=RATES, seeds=(0, 1))
    return made


def run(table, folder, names=(), train=made_up_run, **options):
    def run_entries(entries):
        run_series(entries, model_dir=str(folder), run=train, **options)

    run_rows(table.selected(list(names)), str(folder), run_entries)


def test_trials_choose_the_learning_rate_of_the_runs(table, tmp_path):
    run(table, tmp_path)
    trials = [each for each in runs if each[2] == "minival"]
    # Each row's first trial comes before any second.
    assert [(name, rate) for name, rate, *_ in trials[:4]] == [
        ("adamw", 0.1),
        ("momentum", 0.1),
        ("adamw", 0.01),
        ("momentum", 0.01),
    ]
    assert {seed for *_, seed in trials} == {100}
    finals = [(name, rate, seed) for name, rate, split, seed in runs if split == "test"]
    assert sorted(finals) == [("adamw", 0.001, 0), ("adamw", 0.001, 1), ("momentum", 0.32, 0), ("momentum", 0.32, 1)]
    chosen = {entry.name: entry.tuned for entry in table.chosen(str(tmp_path)).entries}
    assert chosen == {"AdamW": "0.001 of 5 trials", "SGD": "0.32 of 5 trials"}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_trial_that_ends_at_a_metric_which_is_not_finite_is_the_worst(table, tmp_path, value):
    def not_finite_above_a_half(config, *, model_dir, data_dir):
        if config.schedule.learning_rate > 0.5:
            made_runs.write(model_dir, config.to_dict(), value, curve={})
        else:
            made_up_run(config, model_dir=model_dir, data_dir=data_dir)

    run(table, tmp_path, train=not_finite_above_a_half)
    chosen = {entry.name: entry.tuned for entry in table.chosen(str(tmp_path)).entries}
    assert chosen == {"AdamW": "0.001 of 5 trials", "SGD": "0.32 of 5 trials"}


def test_the_same_command_runs_nothing_again_also_elsewhere(table, tmp_path):
    cache = ResultsCache(str(tmp_path / "ended.jsonl"))
    run(table, tmp_path / "here", cache=cache)
    count = len(runs)
    run(table, tmp_path / "here")
    restore(table, str(tmp_path / "there"), cache)
    run(table, tmp_path / "there")
    assert len(runs) == count
    reports = [
        Report.of_study(table.chosen(str(tmp_path / where)), str(tmp_path / where)) for where in ("here", "there")
    ]
    assert reports[0].table() == reports[1].table()


def test_selected_rows_are_run_alone_and_the_tables_show_what_has_ended(table, tmp_path):
    run(table, tmp_path, ["SGD@32"])
    assert {name for name, *_ in runs} == {"momentum"}
    assert [entry.name for entry in table.chosen(str(tmp_path)).entries] == ["SGD"]
    names = [entry.name for entry in table.trials(str(tmp_path)).entries]
    assert names == ["SGD, 0.01", "SGD, 0.032", "SGD, 0.1", "SGD, 0.32", "SGD, 1"]
    report = Report.of_study(table.trials(str(tmp_path)), str(tmp_path))
    assert report.metric.split == "minival"
    assert report.write_rates(str(tmp_path / "rates.png")) == str(tmp_path / "rates.png")
    assert (tmp_path / "rates.png").stat().st_size > 10_000


def test_a_report_before_the_choice_says_what_is_missing(table, tmp_path):
    with pytest.raises(ValueError, match="no row of 'Digits' has all of its trials yet"):
        Report.of_study(table, str(tmp_path))
    run(table, tmp_path, ["SGD"])
    assert [row.name for row in Report.of_study(table, str(tmp_path)).rows] == ["SGD"]


def test_a_row_that_always_diverges_is_not_chosen(table, tmp_path):
    [row] = table.selected(["SGD"])
    table.tuned = [type(row)(**{**vars(row), "learning_rates": (2.0,), "budget": 1})]
    run(table, tmp_path)
    assert runs == [("momentum", 2.0, "minival", 100)] and table.chosen(str(tmp_path)).entries == []


def test_another_optimizer_takes_after_the_template(table, tmp_path):
    def maker(learning_rate, weight_decay=0.0):
        raise NotImplementedError

    optimizers.register("mine", maker)
    changed = table.with_optimizer("mine", 3)
    assert [row.budget for row in changed.tuned] == [3, 5, 5]
    run(changed, tmp_path, ["mine"])
    assert [name for name, *_ in runs] == ["mine"] * 5
    first = changed.tuned[0]
    assert first.config.optimizer.to_dict() == {"name": "mine", "weight_decay": 0.1}
    assert first.folder == "mine/batch-32" and [row.name for row in changed.tuned] == ["mine", "AdamW", "SGD"]
    with pytest.raises(ValueError, match="has a method 'mine'; register the optimizer under another name"):
        changed.with_optimizer("mine")
    with pytest.raises(ValueError, match="optimizer.name=mien is unknown. Did you mean 'mine'"):
        table.with_optimizer("mien")
    with pytest.raises(ValueError, match="names no template"):
        study.new("Other").with_optimizer("mine")


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"learning_rates": ()}, "expected rising rates above 0"),
        ({"learning_rates": (0.1, 0.01)}, "expected rising rates above 0"),
        ({"learning_rates": (0.0, 0.1)}, "expected rising rates above 0"),
        ({"budget": 0}, "budget of 1 or more"),
        ({"method": "SGD"}, "there is such a row already"),
    ],
)
def test_a_bad_tuned_row_is_refused(table, changed, said):
    config = experiment.new("digits_lstm")
    arguments = {"method": "new", "learning_rates": RATES, "trial": config, **changed}
    with pytest.raises(ValueError, match=said):
        table.tune(config=config, **arguments)


def searched(loss, budget=5):
    """The results of a whole search, in the order of the trials."""
    results = {}
    while rates := next_learning_rates(RATES, results, budget):
        assert not set(rates) & set(results)
        results |= {rate: loss(rate) for rate in rates}
    return results


def valley(middle):
    return lambda rate: abs(math.log(rate / middle))


def test_the_first_rates_come_from_the_middle_out():
    assert next_learning_rates(RATES, {}, 5) == [0.1, 0.01, 1.0]
    assert next_learning_rates(RATES, {0.1: 1.0}, 5) == [0.01, 1.0]
    assert next_learning_rates(RATES, {}, 1) == [0.1] and next_learning_rates(RATES, {0.1: 1.0}, 1) == []


@pytest.mark.parametrize(
    "middle, budget, rates",
    [
        # Towards the better neighbour, and then in the wider gap.
        (0.2, 5, [0.1, 0.01, 1.0, 0.32, 0.18]),
        (0.05, 5, [0.1, 0.01, 1.0, 0.032, 0.057]),
        (0.1, 3, [0.1, 0.01, 1.0]),
        (0.1, 2, [0.1, 0.01]),
        # A best at the end is followed for some trials more.
        (1e9, 5, [0.1, 0.01, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5]),
    ],
)
def test_a_search_tries_these_rates(middle, budget, rates):
    results = searched(valley(middle), budget)
    assert list(results) == rates and is_at_end(results) == (middle == 1e9 or budget == 2)
    assert len(results) == budget + (EXTRA if middle == 1e9 else 0)


@pytest.mark.parametrize("middle", [0.02, 0.1, 0.7, 6.0, 0.0008])
def test_every_method_has_the_same_number_of_trials_and_its_best_inside(middle):
    results = searched(valley(middle))
    assert len(results) == 5 and not is_at_end(results)
    assert abs(math.log(best_learning_rate(results) / middle)) < math.log(3.3)
    assert max(results) / min(results) >= 100


def test_a_diverged_trial_is_the_worst_and_ties_go_to_the_lowest():
    assert next_learning_rates(RATES, dict.fromkeys(RATES, math.inf), 5) == [0.001]
    assert best_learning_rate({0.1: math.inf, 0.01: math.inf}) == 0.01
