"""Study files: what one may say, and every one of experiments/ is whole."""

import glob
import os

import pytest

from tfbigbatch import experiment, optimizers, scaling, schedules, tasks
from tfbigbatch.experiment.files import executed
from tfbigbatch.experiment.recipe import check_fields
from tfbigbatch.studies import study
from tfbigbatch.training.plan import BatchArithmetic

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Beside the tables of results that they made.
FILES = sorted(glob.glob(os.path.join(ROOT, "results", "**", "*study.py"), recursive=True))


@pytest.fixture
def config():
    return experiment.new("digits_lstm")


def with_tasks(path):
    """A study file for each of its tasks; the file itself where it has no argument."""
    return [f"{path}:{task}" for task in getattr(executed(experiment.find(path)[0]), "VARIANTS", ())] or [path]


OF_TASKS = with_tasks("few_steps/study")


@pytest.mark.parametrize("file", [*(each for path in FILES for each in with_tasks(path)), *OF_TASKS])
def test_every_row_of_a_study_file_can_be_run(file):
    made = study.load(file)
    tuned = [config for row in made.tuned for config in (row.config, row.trial)]
    for config in [*(entry.config for entry in made.entries), *tuned]:
        check_fields(config)
        size = tasks.get(config.task).count_examples(config.data, None) or 1_000_000
        BatchArithmetic(config.batch_size, config.accumulation_steps, 1, size)
        assert set(config.model) <= set(tasks.model_defaults(config.task, config.model.get("name")))
        arguments = config.optimizer.to_dict()
        optimizers.get(arguments.pop("name"), keras="tf_keras", learning_rate=0.1, **arguments)
        total = schedules.to_steps(config.duration, name="duration", batch_size=config.batch_size, dataset_size=size)
        schedule = config.schedule
        recipe = scaling.Recipe(schedule.batch_size, schedule.learning_rate, schedule.warmup_epochs)
        scaled = recipe.at(config.batch_size, schedule.rule)
        assert scaled.warmup_epochs * size / config.batch_size < total, (file, config.batch_size)


@pytest.mark.parametrize("file", OF_TASKS)
def test_the_methods_of_a_benchmark_differ_in_the_optimizer_alone(file):
    rows = study.load(file).tuned
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
    made = study.new("Digits", baseline="baseline")
    made.add("baseline", config, seeds=[0, 1])
    config.batch_size = 512
    made.add("LEGW + LAMB", config, tuned="10 rates")
    first, second = made.entries
    assert (first.config.batch_size, first.seeds) == (32, (0, 1))
    assert second.directory("runs", 3) == "runs/LEGW-LAMB/batch-512/seed-3" and second.tuned == "10 rates"


def test_a_scaled_copy_takes_what_is_given_and_else_the_recipe(config):
    plain = study.scaled(config, 256, "legw")
    assert (plain.batch_size, plain.schedule.rule, config.batch_size) == (256, "legw", 32)
    plain.batch_size, plain.schedule.rule = 32, "none"
    assert plain.to_dict() == config.to_dict()
    other = study.scaled(
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
    made = study.new("Digits")
    made.add("a", config)
    with pytest.raises(ValueError, match=said):
        made.add(method, config, seeds=seeds)


def test_rows_are_selected_by_name_and_batch(config):
    made = study.new("Digits")
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
        ("", "no function get_study"),
        ("def get_study():\n    return 3", "returned int"),
        ("from tfbigbatch.studies import study\n\ndef get_study():\n    return study.new('x')", "has no rows"),
        (
            "from tfbigbatch import experiment\nfrom tfbigbatch.studies import study\n\n\ndef get_study():\n"
            "    made = study.new('x', baseline='smal')\n"
            "    made.add('small', experiment.new('digits_lstm'))\n    return made",
            "Did you mean 'small'",
        ),
    ],
)
def test_a_mistake_in_a_study_file_is_an_error(tmp_path, source, said):
    path = tmp_path / "study.py"
    path.write_text(source)
    with pytest.raises(ValueError, match=said) as caught:
        study.load(str(path))
    assert "--study=" in str(caught.value)


@pytest.fixture
def table():
    """A row with a learning rate of its own, and one with trials."""
    made = study.new("Digits")
    config = experiment.new("digits_lstm")
    made.add("SGD", config, seeds=(0, 1))
    trial = experiment.new("digits_lstm")
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
    with pytest.raises(ValueError, match=f"--config.{name} cannot be set for all rows of study 'Digits'"):
        table.with_fields([field])
