"""Sweep files: what one may say, every one is whole, and rows with trials run by a made-up run of the trainer."""

import glob
import math
import os

import pytest

import tfbigbatch
from tests.helpers import made_runs
from tfbigbatch import optimizers, schedules, sweeps, tasks
from tfbigbatch.config import new_config
from tfbigbatch.config.files import executed, find
from tfbigbatch.config.recipe import check_fields
from tfbigbatch.errors import DivergedError
from tfbigbatch.reports.report import Report
from tfbigbatch.sweeps.results_cache import ResultsCache
from tfbigbatch.sweeps.series import restore, run_rows, run_series
from tfbigbatch.sweeps.sweep import EXTRA, best_learning_rate, is_at_end, next_learning_rates
from tfbigbatch.training.phases import batch_line

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Beside the tables of results that they made.
FILES = sorted(glob.glob(os.path.join(ROOT, "results", "**", "*sweep.py"), recursive=True))


@pytest.fixture
def config():
    return new_config("digits_lstm")


def with_tasks(path):
    """A sweep file for each of its tasks; the file itself where it has no argument."""
    return [f"{path}:{task}" for task in getattr(executed(find(path)[0]), "VARIANTS", ())] or [path]


OF_TASKS = with_tasks("few_steps/sweep")


@pytest.mark.parametrize("file", [*(each for path in FILES for each in with_tasks(path)), *OF_TASKS])
def test_every_row_of_a_sweep_file_can_be_run(file):
    made = sweeps.load(file)
    tuned = [config for row in made.tuned for config in (row.config, row.trial)]
    for config in [*(entry.config for entry in made.entries), *tuned]:
        check_fields(config)
        size = tasks.get(config.task).count_examples(config.data, None) or 1_000_000
        batch_line(config.batch_size, config.accumulation_steps, 1, size)
        assert set(config.model) <= set(tasks.model_defaults(config.task, config.model.get("name")))
        arguments = config.optimizer.to_dict()
        optimizers.get(arguments.pop("name"), keras="keras3", learning_rate=0.1, **arguments)
        total = schedules.to_steps(config.duration, name="duration", batch_size=config.batch_size, dataset_size=size)
        schedule = config.schedule
        recipe = tfbigbatch.Recipe(schedule.batch_size, schedule.learning_rate, schedule.warmup_epochs)
        scaled = recipe.at(config.batch_size, schedule.rule)
        assert scaled.warmup_epochs * size / config.batch_size < total, (file, config.batch_size)


@pytest.mark.parametrize("file", OF_TASKS)
def test_the_methods_of_a_benchmark_differ_in_the_optimizer_alone(file):
    rows = sweeps.load(file).tuned
    batches = {row.config.batch_size for row in rows}
    for batch_size in batches:
        alike = {}
        for row in rows:
            if row.config.batch_size == batch_size and "zero bias" not in row.name:
                fields = row.config.to_dict()
                del fields["optimizer"]
                alike[row.name] = fields
                # The test set is not looked at before the choice.
                assert row.trial.evaluate_on != row.config.evaluate_on
                assert (len(row.learning_rates), row.budget) == (3, 5)
                assert row.learning_rates[-1] / row.learning_rates[0] > 30
        assert len(alike) >= 5 and all(fields == alike["Muon"] for fields in alike.values())
    assert [len({row.seeds for row in rows if row.config.batch_size == size}) for size in batches] == [1] * len(batches)


def test_rows_are_copies_with_folders_of_their_own(config):
    made = sweeps.Sweep("Digits", baseline="baseline")
    made.add("baseline", config, seeds=[0, 1])
    config.batch_size = 512
    made.add("LEGW + LAMB", config, tuned="10 rates")
    first, second = made.entries
    assert (first.config.batch_size, first.seeds) == (32, (0, 1))
    assert second.directory("runs", 3) == "runs/LEGW-LAMB/batch-512/seed-3" and second.tuned == "10 rates"


def test_a_scaled_copy_takes_what_is_given_and_else_the_recipe(config):
    plain = sweeps.scaled(config, 256, "legw")
    assert (plain.batch_size, plain.schedule.rule, config.batch_size) == (256, "legw", 32)
    plain.batch_size, plain.schedule.rule = 32, "none"
    assert plain.to_dict() == config.to_dict()
    other = sweeps.scaled(
        config, 64, "sqrt", tuned_at=512, optimizer={"name": "lamb"}, learning_rate=3.0, warmup_epochs=2.0
    )
    schedule = other.schedule
    assert (schedule.batch_size, schedule.learning_rate, schedule.warmup_epochs) == (512, 3.0, 2.0)
    assert other.optimizer.to_dict() == {"name": "lamb"} and config.optimizer.name == "momentum"


@pytest.mark.parametrize(
    "method, seeds, said",
    [
        ("a", (0,), "row 'a' at batch 32: there is such a row already"),
        ("A!", (0,), "there is such a row already"),
        ("b", (), "expected at least one"),
        ("b", (1, 1), "each once"),
        ("+", (0,), "no letter or digit"),
    ],
)
def test_a_bad_row_is_refused(config, method, seeds, said):
    made = sweeps.Sweep("Digits")
    made.add("a", config)
    with pytest.raises(ValueError, match=said):
        made.add(method, config, seeds=seeds)


def test_rows_are_selected_by_name_and_batch(config):
    made = sweeps.Sweep("Digits")
    made.add("baseline", config)
    for batch_size in (512, 1024):
        config.batch_size = batch_size
        made.add("LEGW + LAMB", config)

    def folders(*names):
        return [entry.folder for entry in made.selected(list(names))]

    assert folders() == ["baseline/batch-32", "LEGW-LAMB/batch-512", "LEGW-LAMB/batch-1024"]
    assert folders("legw + lamb@512", "Baseline") == folders()[:2] and folders("LEGW + LAMB") == folders()[1:]
    assert folders("@1024") == folders()[2:]
    with pytest.raises(ValueError, match="--only=LEGW \\+ LAMB@64.*Did you mean 'LEGW"):
        folders("LEGW + LAMB@64")


@pytest.mark.parametrize(
    "source, said",
    [
        ("", "no function get_sweep"),
        ("def get_sweep():\n    return 3", "returned int"),
        ("from tfbigbatch import sweeps\n\ndef get_sweep():\n    return sweeps.Sweep('x')", "has no rows"),
        (
            "from tfbigbatch import sweeps\nfrom tfbigbatch.config import new_config\n\n\ndef get_sweep():\n"
            "    made = sweeps.Sweep('x', baseline='smal')\n"
            "    made.add('small', new_config('digits_lstm'))\n    return made",
            "Did you mean 'small'",
        ),
    ],
)
def test_a_mistake_in_a_sweep_file_is_an_error(tmp_path, source, said):
    path = tmp_path / "sweep.py"
    path.write_text(source)
    with pytest.raises(ValueError, match=said) as caught:
        sweeps.load(str(path))
    assert "--sweep=" in str(caught.value)


@pytest.fixture
def table():
    """A row with a learning rate of its own, and one with trials."""
    made = sweeps.Sweep("Digits")
    config = new_config("digits_lstm")
    made.add("SGD", config, seeds=(0, 1))
    trial = new_config("digits_lstm")
    trial.evaluate_on, trial.data.minival = "minival", 100
    made.tune("AdamW", config, trial=trial, learning_rates=(0.01, 0.1), seeds=(0, 1))
    return made


def test_quick_rows_are_tiny(table):
    tiny = table.made_quick(None)
    [row], [tuned] = tiny.entries, tiny.tuned
    assert {each.duration for each in (row.config, tuned.config, tuned.trial)} == {"8 steps"}
    assert (row.seeds, tuned.seeds, tuned.budget) == ((0,), (0,), 1)
    assert table.tuned[0].config.duration == "1 epochs"
    # Under their names at full size.
    assert tiny.selected(["adamw@32"]) == [tuned] and tuned.config.batch_size == 16


def test_a_field_of_all_rows_and_trials(table):
    changed = table.with_fields(["mixed_precision=bfloat16", "model.hidden_units=4"])
    [row], [tuned] = changed.entries, changed.tuned
    for config in (row.config, tuned.config, tuned.trial):
        assert (config.mixed_precision, config.model.hidden_units) == ("bfloat16", 4)
    assert changed.title == "Digits, mixed_precision=bfloat16, model.hidden_units=4"
    assert (row.folder, tuned.trial.evaluate_on) == (table.entries[0].folder, "minival")
    assert table.title == "Digits" and table.entries[0].config.mixed_precision == "float32"


@pytest.mark.parametrize("field", ["batch_size=64", "seed=3", "optimizer.name=lamb", "schedule.learning_rate=0.1"])
def test_a_field_that_rows_differ_in_is_refused(table, field):
    name = field.partition("=")[0]
    with pytest.raises(ValueError, match=f"--config.{name} cannot be set for all rows of sweep 'Digits'"):
        table.with_fields([field])


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
def tuned():
    runs.clear()
    made = sweeps.Sweep("Digits", template="AdamW")
    for name, fields in (("AdamW", {"name": "adamw", "weight_decay": 0.1}), ("SGD", {"name": "momentum"})):
        config = new_config("digits_lstm")
        config.optimizer = fields
        trial = new_config("digits_lstm")
        trial.optimizer, trial.evaluate_on, trial.data.minival = fields, "minival", 100
        made.tune(name, config, trial=trial, learning_rates=RATES, seeds=(0, 1))
    return made


def run(tuned, folder, names=(), train=made_up_run, **options):
    def run_entries(entries):
        run_series(entries, model_dir=str(folder), run=train, **options)

    run_rows(tuned.selected(list(names)), str(folder), run_entries)


def test_trials_choose_the_learning_rate_of_the_runs(tuned, tmp_path):
    run(tuned, tmp_path)
    trials = [each for each in runs if each[2] == "minival"]
    # Each row's first trial comes before any second.
    first = [(name, rate) for rate in (0.1, 0.01) for name in ("adamw", "momentum")]
    assert [(name, rate) for name, rate, *_ in trials[:4]] == first
    assert {seed for *_, seed in trials} == {100}
    finals = [(name, rate, seed) for name, rate, split, seed in runs if split == "test"]
    assert sorted(finals) == [("adamw", 0.001, 0), ("adamw", 0.001, 1), ("momentum", 0.32, 0), ("momentum", 0.32, 1)]
    chosen = {entry.name: entry.tuned for entry in tuned.chosen(str(tmp_path)).entries}
    assert chosen == {"AdamW": "0.001 of 5 trials", "SGD": "0.32 of 5 trials"}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_trial_that_ends_at_a_metric_which_is_not_finite_is_the_worst(tuned, tmp_path, value):
    def not_finite_above_a_half(config, *, model_dir, data_dir):
        if config.schedule.learning_rate > 0.5:
            made_runs.write(model_dir, config.to_dict(), value, curve={})
        else:
            made_up_run(config, model_dir=model_dir, data_dir=data_dir)

    run(tuned, tmp_path, train=not_finite_above_a_half)
    chosen = {entry.name: entry.tuned for entry in tuned.chosen(str(tmp_path)).entries}
    assert chosen == {"AdamW": "0.001 of 5 trials", "SGD": "0.32 of 5 trials"}


def test_the_same_command_runs_nothing_again_also_elsewhere(tuned, tmp_path):
    cache = ResultsCache(str(tmp_path / "ended.jsonl"))
    run(tuned, tmp_path / "here", cache=cache)
    count = len(runs)
    run(tuned, tmp_path / "here")
    restore(tuned, str(tmp_path / "there"), cache)
    run(tuned, tmp_path / "there")
    assert len(runs) == count
    reports = [
        Report.of_sweep(tuned.chosen(str(tmp_path / where)), str(tmp_path / where)) for where in ("here", "there")
    ]
    assert reports[0].table() == reports[1].table()


def test_selected_rows_are_run_alone_and_the_tables_show_what_has_ended(tuned, tmp_path):
    run(tuned, tmp_path, ["SGD@32"])
    assert {name for name, *_ in runs} == {"momentum"}
    assert [entry.name for entry in tuned.chosen(str(tmp_path)).entries] == ["SGD"]
    names = [entry.name for entry in tuned.trials(str(tmp_path)).entries]
    assert names == ["SGD, 0.01", "SGD, 0.032", "SGD, 0.1", "SGD, 0.32", "SGD, 1"]
    report = Report.of_sweep(tuned.trials(str(tmp_path)), str(tmp_path))
    assert report.metric.split == "minival"


def test_a_report_before_the_choice_says_what_is_missing(tuned, tmp_path):
    with pytest.raises(ValueError, match="no row of 'Digits' has all of its trials yet"):
        Report.of_sweep(tuned, str(tmp_path))
    run(tuned, tmp_path, ["SGD"])
    assert [row.name for row in Report.of_sweep(tuned, str(tmp_path)).rows] == ["SGD"]


def test_a_row_that_always_diverges_is_not_chosen(tuned, tmp_path):
    [row] = tuned.selected(["SGD"])
    tuned.tuned = [type(row)(**{**vars(row), "learning_rates": (2.0,), "budget": 1})]
    run(tuned, tmp_path)
    assert runs == [("momentum", 2.0, "minival", 100)] and tuned.chosen(str(tmp_path)).entries == []


def test_another_optimizer_takes_after_the_template(tuned, tmp_path):
    def maker(learning_rate, weight_decay=0.0):
        raise NotImplementedError

    optimizers.register("mine", maker)
    changed = tuned.with_optimizer("mine")
    run(changed, tmp_path, ["mine"])
    assert [name for name, *_ in runs] == ["mine"] * 7
    first = changed.tuned[0]
    assert first.config.optimizer.to_dict() == {"name": "mine", "weight_decay": 0.1}
    assert first.folder == "mine/batch-32" and [row.name for row in changed.tuned] == ["mine", "AdamW", "SGD"]
    with pytest.raises(ValueError, match="has a method 'mine'; register the optimizer under another name"):
        changed.with_optimizer("mine")
    with pytest.raises(ValueError, match="optimizer.name=mien is unknown. Did you mean 'mine'"):
        tuned.with_optimizer("mien")
    with pytest.raises(ValueError, match="names no template"):
        sweeps.Sweep("Other").with_optimizer("mine")


@pytest.mark.parametrize(
    "changed, said",
    [
        *(({"learning_rates": rates}, "expected rising rates above 0") for rates in ((), (0.1, 0.01), (0.0, 0.1))),
        ({"budget": 0}, "budget of 1 or more"),
        ({"method": "SGD"}, "there is such a row already"),
    ],
)
def test_a_bad_tuned_row_is_refused(tuned, changed, said):
    config = new_config("digits_lstm")
    arguments = {"method": "new", "learning_rates": RATES, "trial": config, **changed}
    with pytest.raises(ValueError, match=said):
        tuned.tune(config=config, **arguments)


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


def test_a_diverged_trial_is_the_worst_and_ties_go_to_the_lowest():
    assert next_learning_rates(RATES, dict.fromkeys(RATES, math.inf), 5) == [0.001]
    assert best_learning_rate({0.1: math.inf, 0.01: math.inf}) == 0.01
