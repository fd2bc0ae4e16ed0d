"""Runs that are paused in memory: continued to the same bits, and only where the files are theirs."""

import pytest

from tests.helpers.runs import assert_same_bits, curve, resumes
from tests.test_train import language_config
from tfbigbatch import train
from tfbigbatch.training import loop
from tfbigbatch.training.paused import RUNS, PausedRun, PausedRuns
from tfbigbatch.tuning.executors import Here

LAMB = {"optimizer": {"name": "lamb", "use_ema": True, "ema_momentum": 0.9}, "model__dropout": 0.3}


@pytest.fixture(autouse=True)
def none_before():
    RUNS.forget()
    yield
    RUNS.forget()


def starts(capsys):
    """How many runs were built, by their banners."""
    return sum(line.startswith("optimizer ") for line in capsys.readouterr().out.splitlines())


def test_it_continues_to_the_same_bits_and_rows_without_being_built_again(tmp_path, quick_config, capsys):
    resumes(tmp_path, quick_config(**LAMB), 4, 16, in_memory=True)
    assert curve(tmp_path / "parts") == curve(tmp_path / "whole")
    assert starts(capsys) == 2


def test_a_language_model_continues_with_its_carried_state(tmp_path, capsys):
    config = language_config(accumulation_steps=2)
    config.model.dropout = 0.2
    resumes(tmp_path, config, 8, 36, in_memory=True, use_fake_data=True)
    assert starts(capsys) == 2


def test_two_runs_by_turns_are_as_each_alone(tmp_path, quick_config, capsys):
    configs = {rate: quick_config(**{**LAMB, "schedule__learning_rate": rate}) for rate in (0.01, 0.02)}
    for stop in (4, 12, None):
        for rate, config in configs.items():
            train.run(config, model_dir=str(tmp_path / f"turns-{rate}"), stop_after=stop, in_memory=True)
    assert starts(capsys) == 2
    for rate, config in configs.items():
        train.run(config, model_dir=str(tmp_path / f"alone-{rate}"))
        assert_same_bits(tmp_path / f"alone-{rate}", tmp_path / f"turns-{rate}")


def test_a_run_that_went_on_elsewhere_continues_from_the_disk(tmp_path, quick_config, capsys):
    config, parts = quick_config(**LAMB), str(tmp_path / "parts")
    train.run(config, model_dir=parts, stop_after=4, in_memory=True)
    train.run(config, model_dir=parts, stop_after=8)
    train.run(config, model_dir=parts, in_memory=True)
    assert starts(capsys) == 3
    train.run(config, model_dir=str(tmp_path / "whole"))
    assert_same_bits(tmp_path / "whole", parts)


@pytest.mark.slow
def test_a_pause_that_is_not_saved_is_not_kept(tmp_path, quick_config, capsys):
    resumes(tmp_path, quick_config(**LAMB), 5, in_memory=True)
    assert starts(capsys) == 3


def test_an_executor_that_ends_lets_go_of_them(tmp_path, quick_config, capsys):
    config = quick_config(**LAMB)
    with Here() as here:
        here.submit(train.run, config, model_dir=str(tmp_path), stop_after=4, in_memory=True).result()
    train.run(config, model_dir=str(tmp_path), in_memory=True)
    assert starts(capsys) == 2


@pytest.mark.slow
def test_where_they_do_not_fit_those_that_paused_earlier_make_room(tmp_path, quick_config, monkeypatch, capsys):
    config = quick_config(**LAMB)
    monkeypatch.setattr(loop, "RUNS", PausedRuns(most=5))
    monkeypatch.setattr(PausedRun, "size", 2)

    def is_built_for(name, stop):
        train.run(config, model_dir=str(tmp_path / name), stop_after=stop, in_memory=True)
        return bool(starts(capsys))

    assert [is_built_for(name, 4) for name in "abc"] == [True] * 3
    # Two fit. The third comes from the disk, and takes the place of one that is behind it.
    assert [is_built_for("c", 8), is_built_for("b", 8), is_built_for("c", 12)] == [True, False, False]
    assert is_built_for("a", 8)
