"""Changes to a study as a whole."""

import pytest

from tfbigbatch import experiment
from tfbigbatch.studies import changes, study


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
    tiny = changes.made_quick(table, None)
    [row], [tuned] = tiny.entries, tiny.tuned
    assert {each.duration for each in (row.config, tuned.config, tuned.trial)} == {"8 steps"}
    assert (row.seeds, tuned.seeds, tuned.budget) == ((0,), (0,), 1)
    assert table.tuned[0].config.duration == "1 epochs"
    # Under their names at full size.
    assert tiny.selected(["adamw@32"]) == [tuned] and tuned.config.batch_size == 16


def test_a_field_of_all_rows_and_trials(table):
    changed = changes.with_fields(table, ["mixed_precision=bfloat16", "model.hidden_units=4"])
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
        changes.with_fields(table, [field])


def test_an_unknown_field_is_refused(table):
    with pytest.raises(ValueError, match="Did you mean 'duration'"):
        changes.with_fields(table, ["durration=1 epochs"])
