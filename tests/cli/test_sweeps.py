"""The grid of a study's command line."""

import types

import pytest

from tfbigbatch.cli import sweeps

FLAGS = {"config.FIELD": [], "sweep.FIELD": [], "learning_rates": None, "seeds": None, "quick": False}


class Options:
    """As absl's FlagValues."""

    def __init__(self, given):
        self._given = given

    def __getattr__(self, name):
        return self._given[name]

    def __getitem__(self, name):
        return types.SimpleNamespace(value=self._given[name])

    def __contains__(self, name):
        return name in self._given


def grid(**given):
    given = {{"sweep": "sweep.FIELD", "fields": "config.FIELD"}.get(name, name): value for name, value in given.items()}
    return dict(sweeps.configs("digits/lstm_small_batch", Options({**FLAGS, **given})))


def test_any_fields_are_swept_and_name_their_trials():
    found = grid(
        sweep=["optimizer.weight_decay=0.01,0.1", "batch_size=32,64"],
        fields=["optimizer.name=adamw", "duration=5 epochs"],
        learning_rates=["0.5"],
    )
    names = [
        f"schedule.learning_rate=0.5 optimizer.weight_decay={decay} batch_size={size}"
        for decay in (0.01, 0.1)
        for size in (32, 64)
    ]
    assert list(found) == names and all(config.duration == "5 epochs" for config in found.values())
    first, last = found[names[0]], found[names[-1]]
    assert (first.optimizer.weight_decay, first.batch_size, first.schedule.learning_rate) == (0.01, 32, 0.5)
    assert (last.optimizer.weight_decay, last.batch_size, last.optimizer.name) == (0.1, 64, "adamw")


def test_values_that_have_commas_are_parted_by_semicolons():
    found = grid(sweep=["schedule.boundaries='1 epochs','2 epochs';('3 epochs',)"])
    assert [config.schedule.boundaries for config in found.values()] == [("1 epochs", "2 epochs"), ("3 epochs",)]


@pytest.mark.parametrize(
    "given, said",
    [
        ({"sweep": ["batch_size=8,,9"]}, "expected --sweep.FIELD=VALUE,VALUE"),
        ({"sweep": ["batch_size=8,many"]}, "--config.batch_size=many: expected a value of type int"),
        ({"sweep": ["batchsize=8"]}, "Did you mean 'batch_size'"),
        ({"sweep": ["seed=0,1"]}, "give --seeds=0,1"),
        ({"sweep": ["batch_size=8", "batch_size=9"]}, "is there twice"),
        ({"sweep": ["batch_size=8,8"]}, "is there twice"),
        ({"sweep": ["schedule.learning_rate=1"], "learning_rates": ["2"]}, "is there twice"),
    ],
)
def test_a_bad_sweep_is_refused(given, said):
    with pytest.raises(ValueError, match=said):
        grid(**given)
