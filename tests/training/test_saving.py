"""Checkpoints at intervals of time: what a kill can cost, and the same bits after it."""

import types

import pytest

from tests.helpers.runs import assert_same_bits, curve, killing
from tfbigbatch import train
from tfbigbatch.config import new_config
from tfbigbatch.config.fields import interval, seconds_between_saves
from tfbigbatch.training import loop
from tfbigbatch.training.checkpoints import Checkpoints


@pytest.mark.usefixtures("one_step_a_call")
@pytest.mark.parametrize("evaluate_every, evaluation_seconds", [(1000, 0.0), (15, 7.0)])
def test_a_kill_costs_at_most_the_time_with_a_row_of_the_log_and_an_evaluation(
    tmp_path, quick_config, monkeypatch, evaluate_every, evaluation_seconds
):
    clock, saved, steps = [0.0], [0.0], []

    def save(self, step):
        saved.append(clock[0])
        steps.append(step)

    def heartbeat(done):
        if done.startswith("step "):
            clock[0] += 1.0
        elif done == "evaluated batch 1":
            clock[0] += evaluation_seconds
        # A kill now loses what was done since the last save.
        assert clock[0] - saved[-1] <= 10.0 + 4.0 + evaluation_seconds

    monkeypatch.setattr(loop, "time", types.SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(Checkpoints, "save", save)
    fields = {"duration": "60 steps", "evaluate_every": f"{evaluate_every} steps", "keep_best": False}
    train.run(quick_config(**fields, checkpoint_every="10 seconds"), model_dir=str(tmp_path), heartbeat=heartbeat)
    # At rows of the log and evaluations.
    assert len(steps) >= 60 / 14 and all(step % 4 == 0 or step % evaluate_every == 0 for step in steps)


@pytest.mark.usefixtures("one_step_a_call")
def test_a_run_that_saves_by_time_resumes_to_the_same_bits_and_rows(tmp_path, quick_config, monkeypatch):
    train.run(quick_config(), model_dir=str(tmp_path / "whole"))
    config, parts = quick_config(checkpoint_every="0.001 seconds"), str(tmp_path / "parts")
    saved, save = [], Checkpoints.save

    def noted(self, step):
        saved.append(step)
        save(self, step)

    monkeypatch.setattr(Checkpoints, "save", noted)
    with pytest.raises(KeyboardInterrupt):
        train.run(config, model_dir=parts, **killing("step 19"))
    assert saved == [4, 8, 12, 16]
    train.run(config, model_dir=parts)
    assert_same_bits(tmp_path / "whole", parts)
    assert curve(tmp_path / "whole") == curve(tmp_path / "parts")


@pytest.mark.parametrize(
    "text, seconds",
    [("5 minutes", 300.0), ("1.5 Hours", 5400.0), (".5 second", 0.5), ("3 epochs", None), ("100 steps", None)],
)
def test_times_are_told_from_durations_in_steps(text, seconds):
    config = new_config("digits_lstm")
    config.checkpoint_every = text
    assert seconds_between_saves(config) == seconds
    assert interval(config, "checkpoint_every") == (text if seconds is None else "0 steps")


@pytest.mark.parametrize("text, said", [("0 minutes", "a time above 0"), ("5 fortnights", "does not say how long")])
def test_what_is_no_time_is_refused(tmp_path, quick_config, text, said):
    with pytest.raises(ValueError, match=said):
        train.run(quick_config(checkpoint_every=text), model_dir=str(tmp_path / "run"))
