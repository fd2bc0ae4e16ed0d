"""Runs that continue: resumed after a kill, extended, evaluated, and begun with the weights of another."""

import json

import numpy as np
import pytest

from tests.helpers.runs import assert_same_bits, files_of, final_weights, killing, resumes
from tfbigbatch import train
from tfbigbatch.errors import InputError
from tfbigbatch.run_directory.metrics_log import read_rows

SHORT = {"duration": "8 steps", "evaluate_every": "8 steps", "checkpoint_every": "8 steps"}


def status_of(directory):
    return json.loads((directory / "status.json").read_text())


@pytest.mark.usefixtures("one_step_a_call")
def test_the_step_is_in_the_status_and_a_restart_says_what_is_lost(tmp_path, quick_config, monkeypatch, capsys):
    monkeypatch.setattr("tfbigbatch.training.status._SECONDS", 0.0)
    config = quick_config(**{**SHORT, "log_every": "2 steps"})
    with pytest.raises(KeyboardInterrupt):
        train.run(config, model_dir=str(tmp_path), **killing("step 7"))
    assert (status_of(tmp_path)["status"], status_of(tmp_path)["step"]) == ("running", 6)
    before = status_of(tmp_path)["seconds"]
    capsys.readouterr()
    with pytest.raises(KeyboardInterrupt):
        train.run(None, model_dir=str(tmp_path), **killing("step 1"))
    said = capsys.readouterr().out
    assert "restart    from step 0: the run had no checkpoint yet" in said
    assert 0.0 < before < status_of(tmp_path)["seconds"]
    assert "6 steps are made again; a shorter checkpoint_every than '8 steps' loses less" in said


# A short form in the default run: docs/runs.md, by tests/test_docs.py.
@pytest.mark.slow
def test_a_finished_run_is_extended(tmp_path, quick_config, capsys):
    train.run(quick_config(**SHORT), model_dir=str(tmp_path))
    before = files_of(tmp_path)
    for fields, said in [
        ({"duration": "6 steps"}, "is 6 steps, and the run was of 8"),
        ({"duration": "12 steps", "seed": 1}, "seed: 0 -> 1"),
    ]:
        with pytest.raises(InputError, match=said):
            train.run(quick_config(**{**SHORT, **fields}), model_dir=str(tmp_path), extend=True)
    assert files_of(tmp_path) == before
    longer = quick_config(**{**SHORT, "duration": "16 steps"})
    capsys.readouterr()
    result = train.run(longer, model_dir=str(tmp_path), extend=True, stop_after=12)
    said = capsys.readouterr().out
    assert (
        "extend     at step 8, from 8 steps to 16 steps" in said and "resume     from the checkpoint of step 8" in said
    )
    # The linear decay of 8 steps had reached 1/8 of the peak in its last step.
    assert "learning rate 0.0125 in step 8 by the schedule that ended there, 0.05 in step 9" in said
    assert (result["status"], result["total_steps"]) == ("running", 16)
    with pytest.raises(InputError, match="duration: 16 steps -> 20 steps"):
        train.run(quick_config(**{**SHORT, "duration": "20 steps"}), model_dir=str(tmp_path))
    # The same command resumes an extension.
    result = train.run(longer, model_dir=str(tmp_path), extend=True)
    assert (result["status"], result["step"]) == ("done", 16)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["config"]["duration"] == "16 steps"
    assert config["extensions"] == [{"duration": "8 steps", "step": 8, "total_steps": 8}]
    assert [row["step"] for row in read_rows(tmp_path / "metrics.jsonl") if row["split"] == "eval"] == [8, 16]
    capsys.readouterr()
    assert train.run(longer, model_dir=str(tmp_path), extend=True) == result
    assert "finished run (16 steps); nothing to do" in capsys.readouterr().out


@pytest.mark.slow
def test_an_extension_that_was_killed_ends_in_the_same_bits(tmp_path, quick_config):
    longer = quick_config(**{**SHORT, "duration": "16 steps", "optimizer": {"name": "lamb"}})
    for name, stops in (("whole", [None]), ("parts", [9, 11, None])):
        train.run(quick_config(**SHORT, optimizer={"name": "lamb"}), model_dir=str(tmp_path / name))
        if name == "parts":
            # Killed after config.json was written, and before the status was.
            done = (tmp_path / name / "status.json").read_text()
            train.run(longer, model_dir=str(tmp_path / name), extend=True, stop_after=9)
            (tmp_path / name / "status.json").write_text(done)
        for stop in stops:
            train.run(longer, model_dir=str(tmp_path / name), extend=True, stop_after=stop)
    assert_same_bits(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.slow
def test_a_run_begins_with_the_weights_of_another(tmp_path, quick_config, capsys):
    first, second = tmp_path / "first", tmp_path / "second"
    short = {"duration": "1 steps", "optimizer": {"name": "lamb"}}
    train.run(quick_config(**short), model_dir=str(first))
    config = quick_config(duration="2 steps", schedule__learning_rate=0.0001)
    capsys.readouterr()
    with pytest.raises(KeyboardInterrupt):
        train.run(config, model_dir=str(second), init_from=str(first), **killing("step 1"))
    said = capsys.readouterr().out
    assert f"init       5 of 5 variables from {first}/checkpoints/step-1; the optimizer starts fresh" in said
    # The first checkpoint is of the weights as they were read.
    one, two = final_weights(first), final_weights(second)
    network = [name for name in one if name.startswith("weights/")]
    assert network and not np.any(two["optimizer/_iterations/.ATTRIBUTES/VARIABLE_VALUE"])
    for name in network:
        np.testing.assert_array_equal(one[name], two[name])
    recorded = json.loads((second / "config.json").read_text())["init_from"]
    assert recorded == {"path": str(first), "checkpoint": f"{first}/checkpoints/step-1"}
    before = files_of(second)
    with pytest.raises(InputError, match=f"began from {first}. Leave the flag out"):
        train.run(config, model_dir=str(second), init_from=str(first / "best"))
    with pytest.raises(InputError, match="began from random weights"):
        train.run(quick_config(**short), model_dir=str(first), init_from=str(second))
    for nothing, said in ((tmp_path / "nothing", "no checkpoint is there"), (tmp_path, "no checkpoint is there")):
        with pytest.raises(InputError, match=said):
            train.run(config, model_dir=str(tmp_path / "third"), init_from=str(nothing))
    assert files_of(second) == before and not (tmp_path / "third").exists()
    # It needs the other one no more.
    first.rename(tmp_path / "moved")
    assert train.run(config, model_dir=str(second), init_from=str(first))["status"] == "done"
    assert "init   " not in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["one_device", "mirrored"])
def test_begun_from_another_and_killed_it_ends_in_the_same_bits(tmp_path, quick_config, strategy):
    train.run(quick_config(**SHORT), model_dir=str(tmp_path / "first"))
    config = quick_config(**SHORT, optimizer={"name": "lamb"}, model__dropout=0.2)
    resumes(tmp_path, config, 3, init_from=str(tmp_path / "first" / "best"), strategy_name=strategy)
