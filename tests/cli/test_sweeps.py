"""The grid of a study's command line."""

import types

import pytest

from tfbigbatch.cli import sweeps

FLAGS = {"override": [], "sweep": [], "learning_rates": None, "warmup_epochs": None, "seeds": None, "quick": False}


class Options(types.SimpleNamespace):
    """As absl's FlagValues."""

    def __getitem__(self, name):
        return types.SimpleNamespace(value=getattr(self, name))

    def __contains__(self, name):
        return hasattr(self, name)


def entries(name="", **given):
    return sweeps.entries("digits/lstm_small_batch", name, Options(**{**FLAGS, **given}))


def test_any_fields_are_swept_and_name_their_trials():
    found = entries(
        sweep=["optimizer.weight_decay=0.01,0.1", "batch_size=32,64", "seed=3,4"],
        override=["config.optimizer.name=adamw", "config.duration=5 epochs"],
    )
    assert [entry.name for entry in found] == [
        f"optimizer.weight_decay={decay} batch_size={size}" for decay in (0.01, 0.1) for size in (32, 64)
    ]
    assert [entry.folder for entry in found][:1] == ["optimizer.weight_decay-0.01-batch_size-32"]
    assert all(entry.seeds == (3, 4) and entry.config.duration == "5 epochs" for entry in found)
    first, *_, last = (entry.config for entry in found)
    assert (first.optimizer.weight_decay, first.batch_size) == (0.01, 32)
    assert (last.optimizer.weight_decay, last.batch_size, last.optimizer.name) == (0.1, 64, "adamw")


def test_rates_and_warmups_keep_their_names_and_join_other_fields():
    [entry] = entries(learning_rates=["0.5"])
    assert entry.name == entry.folder == "rate-0.5-warmup-0.0625" and entry.seeds == (0,)
    [entry] = entries(learning_rates=["0.5"], warmup_epochs=["2"], sweep=["optimizer.name=lars"], name="digits")
    assert entry.name == "digits rate-0.5-warmup-2 optimizer.name=lars"
    assert (entry.config.schedule.learning_rate, entry.config.schedule.warmup_epochs) == (0.5, 2.0)
    assert entry.config.optimizer.name == "lars"


def test_values_that_have_commas_are_parted_by_semicolons():
    found = entries(sweep=["schedule.boundaries=1 epochs,2 epochs;3 epochs"])
    assert [entry.config.schedule.boundaries for entry in found] == [("1 epochs", "2 epochs"), ("3 epochs",)]


def test_earlier_overrides_are_read():
    [entry] = entries(learning_rates=["0.5"], override=["model.hidden_units=3,duration=4 steps"])
    assert (entry.config.model.hidden_units, entry.config.duration) == (3, "4 steps")


@pytest.mark.parametrize(
    "given, said",
    [
        ({"sweep": ["batch_size"]}, "expected --sweep.FIELD=VALUE,VALUE"),
        ({"sweep": ["batch_size=8,,9"]}, "expected --sweep.FIELD=VALUE,VALUE"),
        ({"sweep": ["batch_size=8,many"]}, "--config.batch_size=many: expected a whole number"),
        ({"sweep": ["batchsize=8"]}, "Did you mean 'batch_size'"),
        ({"sweep": ["seed=0,1"], "seeds": ["2"]}, "give one of the two"),
        ({"sweep": ["seed=0,0"]}, "a seed is there twice"),
        ({"sweep": ["batch_size=8", "batch_size=9"]}, "swept twice"),
        ({"sweep": ["schedule.learning_rate=1"], "learning_rates": ["2"]}, "swept twice"),
    ],
)
def test_a_bad_sweep_is_refused(given, said):
    with pytest.raises(ValueError, match=said):
        entries(**given)
