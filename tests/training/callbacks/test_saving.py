"""Checkpoints at intervals of time: what a kill can cost, and the same bits after it."""

import types

import numpy as np
import pytest

from tests.helpers.runs import assert_same_bits, curve
from tfbigbatch import experiment, train
from tfbigbatch.training.callbacks import saving
from tfbigbatch.training.checkpoints import Checkpoints


@pytest.mark.parametrize("evaluate_every, evaluation_seconds", [(1000, 0.0), (30, 7.0)])
def test_a_kill_costs_at_most_the_time_with_a_row_of_the_log_and_an_evaluation(
    monkeypatch, evaluate_every, evaluation_seconds
):
    clock, step_seconds, log_every, saves = [0.0], 1.0, 4, []
    monkeypatch.setattr(saving, "time", types.SimpleNamespace(monotonic=lambda: clock[0]))
    checkpoints = types.SimpleNamespace(save=lambda step: saves.append((clock[0], step)))
    callback = saving.SaveCheckpoints(
        checkpoints, every=0, last_step=300, saved=lambda step: None, seconds=10.0, log_every=log_every
    )
    callback.set_params({"steps": evaluate_every})
    callback.model = types.SimpleNamespace(stop_training=False, optimizer=types.SimpleNamespace(iterations=np.int64(0)))
    monkeypatch.setattr("tfbigbatch.training.callbacks.base.steps_done", lambda optimizer: 0)
    callback.on_train_begin()
    for step in range(300):
        if step % evaluate_every == 0:
            callback.on_epoch_begin(step // evaluate_every)
        clock[0] += step_seconds
        callback.on_train_batch_end(step % evaluate_every)
        if (step + 1) % evaluate_every == 0:
            clock[0] += evaluation_seconds
            callback.on_epoch_end(step // evaluate_every)
        # A kill now loses what was done since the last save.
        lost = clock[0] - (saves[-1][0] if saves else 0.0)
        assert lost <= 10.0 + log_every * step_seconds + evaluation_seconds
    assert len(saves) >= 300 / (10 + log_every) and all(step % 2 == 0 for _, step in saves)


def test_a_run_that_saves_by_time_resumes_to_the_same_bits_and_rows(tmp_path, quick_config, monkeypatch):
    train.run(quick_config(), model_dir=str(tmp_path / "whole"))
    config, parts = quick_config(checkpoint_every="0.001 seconds"), str(tmp_path / "parts")
    saved, save = [], Checkpoints.save

    def save_but_at_the_end(self, step):
        if step != 19:
            saved.append(step)
            save(self, step)

    with monkeypatch.context() as killed:
        # As after a kill: the steps after its last checkpoint are lost.
        killed.setattr(Checkpoints, "save", save_but_at_the_end)
        train.run(config, model_dir=parts, stop_after=19)
    assert saved == [4, 8, 12, 16]
    train.run(config, model_dir=parts)
    assert_same_bits(tmp_path / "whole", parts)
    assert curve(tmp_path / "whole") == curve(tmp_path / "parts")


@pytest.mark.parametrize(
    "text, seconds",
    [("5 minutes", 300.0), ("1.5 Hours", 5400.0), (".5 second", 0.5), ("3 epochs", None), ("100 steps", None)],
)
def test_times_are_told_from_durations_in_steps(text, seconds):
    config = experiment.new("digits_lstm")
    config.checkpoint_every = text
    assert experiment.seconds_between_saves(config) == seconds
    assert experiment.interval(config, "checkpoint_every") == (text if seconds is None else "0 steps")


@pytest.mark.parametrize("text, said", [("0 minutes", "a time above 0"), ("5 fortnights", "does not say how long")])
def test_what_is_no_time_is_refused(tmp_path, quick_config, text, said):
    with pytest.raises(ValueError, match=said):
        train.run(quick_config(checkpoint_every=text), model_dir=str(tmp_path / "run"))
