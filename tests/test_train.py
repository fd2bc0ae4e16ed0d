"""The trainer as a whole: a run, its directory, and resuming it in the same bits."""

import json
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.runs import assert_close, assert_same_bits, curve, files_of, final_weights, resumes, stopping
from tfbigbatch import errors, train
from tfbigbatch.config import new_config
from tfbigbatch.run_directory.directory import read_json, writing
from tfbigbatch.run_directory.metrics_log import read_rows
from tfbigbatch.utils import folder_lock


def test_a_run_directory_holds_all_that_happened(tmp_path, quick_config, capsys):
    result = train.run(quick_config(), model_dir=str(tmp_path), profile_steps=(4, 6))
    assert result["status"] == "done" and result["step"] == 24
    said = capsys.readouterr().out
    assert "48 global = 48 per replica x 1 accumulation x 1 replica" in said and "tensorboard" in said

    config = json.loads((tmp_path / "config.json").read_text())
    assert config["config"]["batch_size"] == 48 and config["versions"]["tensorflow"] == tf.__version__
    status = json.loads((tmp_path / "status.json").read_text())
    assert (status["status"], status["step"], status["total_steps"]) == ("done", 24, 24)
    assert status["metrics"] == result["metrics"] and status["seconds"] > 0

    rows = read_rows(tmp_path / "metrics.jsonl")
    training = [row for row in rows if row["split"] == "train"]
    assert [row["step"] for row in training] == [4, 8, 12, 16, 20, 24]
    assert {"loss", "accuracy", "learning_rate", "examples_per_second", "epoch"} <= set(training[0])
    assert [row["step"] for row in rows if row["split"] == "eval"] == [12, 24]
    assert sorted(n for n in os.listdir(tmp_path / "checkpoints") if n.endswith("index")) == [
        "step-16.index",
        "step-24.index",
    ]

    tags = set()
    for split in ("train", "eval"):
        for name in os.listdir(tmp_path / split):
            if "tfevents" in name:
                for event in tf.compat.v1.train.summary_iterator(str(tmp_path / split / name)):
                    tags.update(f"{split}/{value.tag}" for value in event.summary.value)
    assert {"train/loss", "train/learning_rate", "train/examples_per_second", "eval/accuracy"} <= tags
    assert list((tmp_path / "train" / "plugins" / "profile").rglob("*.xplane.pb"))


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory, quick_config):
    """(What the run gave, its directory, which no test changes)."""
    directory = tmp_path_factory.mktemp("finished")
    return train.run(quick_config(), model_dir=str(directory)), directory


@pytest.fixture
def finished(finished_run, tmp_path):
    """(What a finished run gave, a copy of its directory)."""
    shutil.copytree(finished_run[1], tmp_path / "finished")
    return finished_run[0], tmp_path / "finished"


def test_a_finished_run_says_so_and_changes_nothing(finished, quick_config, capsys):
    first, directory = finished
    before = files_of(directory)
    assert train.run(quick_config(), model_dir=str(directory)) == first
    assert "finished run (24 steps); nothing to do" in capsys.readouterr().out
    assert files_of(directory) == before


def test_a_directory_of_another_config_is_refused_and_left_alone(finished, quick_config):
    _, directory = finished
    before = files_of(directory)
    with pytest.raises(
        ValueError, match="(?s)another config.*batch_size: 48 -> 24.*schedule.learning_rate: 0.1 -> 0.2"
    ):
        train.run(quick_config(batch_size=24, schedule__learning_rate=0.2), model_dir=str(directory))
    assert files_of(directory) == before


def test_eval_mode_scores_the_newest_checkpoint_and_changes_nothing(finished, tmp_path, quick_config):
    done, directory = finished
    before = files_of(directory)
    # None: the run's own config.
    result = train.run(None, model_dir=str(directory), mode="eval")
    assert result["metrics"] == pytest.approx(done["metrics"]) and result["step"] == 24
    assert files_of(directory) == before
    with pytest.raises(ValueError, match="holds no checkpoint. Train first"):
        train.run(quick_config(), model_dir=str(tmp_path / "empty"), mode="eval")
    assert not (tmp_path / "empty").exists()


def test_a_second_run_in_the_same_directory_is_refused_and_an_evaluation_is_not(
    finished, tmp_path, quick_config, monkeypatch
):
    monkeypatch.setattr(folder_lock, "PATIENCE", 0.0)
    _, directory = finished
    with writing(str(directory)):
        with pytest.raises(ValueError, match=rf"--model_dir=.* another run writes there: process {os.getpid()} on "):
            train.run(quick_config(duration="48 steps"), model_dir=str(directory), extend=True)
        assert train.run(None, model_dir=str(directory), mode="eval")["step"] == 24
        # In a cluster the first worker alone writes.
        monkeypatch.setenv(
            "TF_CONFIG", '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}'
        )
        assert train.run(quick_config(), model_dir=str(directory))["status"] == "done"


@pytest.mark.slow
def test_a_compiled_step_over_replicas_ends_where_a_plain_one_does(tmp_path, quick_config):
    for jit_compile in (False, True):
        config = quick_config(jit_compile=jit_compile, duration="6 steps")
        train.run(config, model_dir=str(tmp_path / str(jit_compile)), strategy_name="mirrored")
    assert_close(tmp_path / "False", tmp_path / "True")


def test_each_phase_has_its_own_intervals_and_schedule(tmp_path, quick_config, capsys):
    phases = (
        {"duration": "6 steps", "evaluate_every": "4 steps", "schedule.decay": "constant"},
        {"duration": "5 steps", "batch_size": 24, "schedule.decay": "constant", "schedule.warmup": "2 steps"},
    )
    result = train.run(quick_config(phases=phases, log_every="1 steps"), model_dir=str(tmp_path))
    assert (result["step"], result["total_steps"]) == (11, 11)
    assert "phase 2    of 2, from step 6" in capsys.readouterr().out
    rows = read_rows(tmp_path / "metrics.jsonl")
    assert [row["step"] for row in rows if row["split"] == "eval"] == [4, 6, 11]
    training = [row for row in rows if row["split"] == "train"]
    # The second phase's warm-up is of its recipe, at the run's batch of 48: twice as many steps at 24.
    warmup = [0.0, 0.025, 0.05, 0.075, 0.1]
    assert [row["learning_rate"] for row in training] == pytest.approx([0.1] * 6 + warmup)
    assert training[6]["epoch"] == pytest.approx(24 / 1437) and training[5]["epoch"] == pytest.approx(6 * 48 / 1437)


# Dropout draws from the generators that a checkpoint holds; intervals and windows straddle the stops.
VARIANTS = {
    "lars, loop of five": {"optimizer": {"name": "lars", "eeta": 0.02}},
    "adamw, accumulation, XLA": {
        "optimizer": {"name": "adamw"},
        "accumulation_steps": 3,
        "model__dropout": 0.3,
        "jit_compile": True,
    },
    "muon": {
        "optimizer": {
            "name": "muon",
            "treatments": (("lstm", "gates"), ("logits.kernel", "vector")),
            "scale": "trust_ratio",
            "normuon_beta": 0.95,
        },
        "mixed_precision": "bfloat16",
    },
    # The second phase has another batch, schedule, accumulation and intervals; it begins at update 14.
    "phases": {
        "optimizer": {"name": "lamb"},
        "model__dropout": 0.3,
        "phases": (
            {"duration": "14 steps"},
            {
                "batch_size": 24,
                "accumulation_steps": 2,
                "duration": "10 steps",
                "evaluate_every": "5 steps",
                "schedule.learning_rate": 0.05,
                "schedule.warmup": "3 steps",
            },
        ),
    },
    "rounds, one late": {
        "optimizer": {"name": "lamb", "local_steps": {"every": 6, "outer": "nesterov"}},
        "model__dropout": 0.3,
        "simulated_replicas": 2,
    },
    "sharded lamb": {"optimizer": {"name": "lamb", "shard_updates": True}, "simulated_replicas": 2},
}


# One variant is for the default run; dropout and accumulation are in the language model's resumed run, below.
@pytest.mark.parametrize(
    "variant",
    [pytest.param(name, marks=[pytest.mark.slow] * (name != "lars, loop of five")) for name in VARIANTS],
)
def test_stopped_anywhere_and_resumed_it_ends_in_the_same_bits(tmp_path, quick_config, simulated_replicas, variant):
    resumes(tmp_path, quick_config(**VARIANTS[variant]), 3, 11, 19)
    assert curve(tmp_path / "parts") == curve(tmp_path / "whole")


@pytest.mark.slow
def test_adasum_resumes_with_the_moments_of_every_replica(tmp_path, quick_config):
    config = quick_config(optimizer={"name": "lamb", "adasum": {"group_size": 2}})
    resumes(tmp_path, config, 11, strategy_name="mirrored")
    moments = [value for name, value in final_weights(tmp_path / "whole").items() if "of_replicas" in name]
    # Two groups of two: moments are a group's own.
    assert any(not np.array_equal(value[0], value[2]) for value in moments if value.ndim > 1)
    assert all(np.array_equal(value[0], value[1]) for value in moments)


def language_config(**fields):
    """A language model of seconds; an epoch is 32 updates."""
    config = new_config("lstm_language_model")
    config.model.update({"window": 2, "hidden_units": 6, "embedding_units": 5, "layers": 1})
    config.batch_size = config.evaluation_batch_size = 32
    config.duration = "40 steps"
    config.evaluate_every = "20 steps"
    config.checkpoint_every = "12 steps"
    config.log_every = "4 steps"
    config.schedule.learning_rate = 1.0
    config.update(fields)
    return config


def run_language(config, model_dir, **arguments):
    return train.run(config, model_dir=str(model_dir), use_fake_data=True, **arguments)


def test_a_language_model_in_phases_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ValueError, match="phases: 2 of them, with task lstm_language_model, which carries its state"):
        run_language(language_config(phases=({}, {})), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("strategy", ["one_device", pytest.param("mirrored", marks=pytest.mark.slow)])
def test_a_language_model_resumes_within_an_epoch_in_the_same_bits(tmp_path, strategy):
    config = language_config(accumulation_steps=2)
    config.model.dropout = 0.2
    done = resumes(tmp_path, config, 5, 34, strategy_name=strategy, use_fake_data=True)
    rows = read_rows(tmp_path / "parts" / "metrics.jsonl")
    assert done["metrics"]["perplexity"] == pytest.approx(np.exp(done["metrics"]["cross_entropy"]))
    assert all(row["tokens_per_second"] == 2 * row["examples_per_second"] for row in rows if row["split"] == "train")


def test_chosen_on_the_valid_set_a_run_is_scored_on_the_test_set(tmp_path, capsys):
    valid = run_language(language_config(evaluate_on="valid"), tmp_path)
    assert "valid perplexity" in capsys.readouterr().out
    test = run_language(language_config(evaluate_on="test"), tmp_path, mode="eval")
    assert "test perplexity" in capsys.readouterr().out
    assert test["metrics"]["perplexity"] != valid["metrics"]["perplexity"]
    with pytest.raises(ValueError, match="evaluate_on: valid -> test"):
        run_language(language_config(evaluate_on="test"), tmp_path)


def test_killed_just_before_the_end_it_still_ends_with_its_metrics(finished, quick_config):
    done, directory = finished
    rows = read_rows(directory / "metrics.jsonl")
    status = {"status": "running", "step": 24, "total_steps": 24, "seconds": 1.0}
    (directory / "status.json").write_text(json.dumps(status))
    again = train.run(quick_config(), model_dir=str(directory))
    assert again["status"] == "done" and again["metrics"] == pytest.approx(done["metrics"])
    assert read_rows(directory / "metrics.jsonl") == rows


@pytest.mark.parametrize(
    "stop_at", [5, pytest.param(12, marks=pytest.mark.slow), pytest.param(24, marks=pytest.mark.slow)]
)
@pytest.mark.usefixtures("one_step_a_call")
def test_a_request_to_stop_saves_and_the_resumed_run_lacks_nothing(tmp_path, quick_config, finished_run, stop_at):
    with pytest.raises(errors.Preempted, match=f"since the test says so, after step {stop_at}, and saved"):
        train.run(quick_config(), model_dir=str(tmp_path / "parts"), **stopping(f"step {stop_at}"))
    status = json.loads((tmp_path / "parts" / "status.json").read_text())
    assert (status["status"], status["step"]) == ("preempted", stop_at)
    train.run(quick_config(), model_dir=str(tmp_path / "parts"))
    assert_same_bits(tmp_path / "parts", finished_run[1])
    parts, whole = (read_rows(directory / "metrics.jsonl") for directory in (tmp_path / "parts", finished_run[1]))
    assert [row for row in parts if row["split"] == "eval"] == [row for row in whole if row["split"] == "eval"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "order, fields",
    [(((0, 1), (2, 4), (4, 2)), {}), (((2, 4), (4, 1), (0, 2)), {"optimizer__shard_updates": True})],
    ids=["all replicas update", "sharded updates"],
)
def test_a_run_goes_on_with_other_numbers_of_replicas(
    tmp_path, quick_config, simulated_replicas, capsys, order, fields
):
    # At a high rate, a hundred updates make a rounding of 1e-7 a third of the loss.
    shared = {"optimizer": {"name": "lamb"}, "schedule__learning_rate": 0.01, "log_every": "5 steps"}
    shared.update(duration="120 steps", batch_size=64, evaluate_every="60 steps", checkpoint_every="20 steps")
    train.run(quick_config(**shared), model_dir=str(tmp_path / "whole"))
    for (replicas, micro_batches), stop in zip(order, (23, 64, None)):
        config = quick_config(**shared, **fields, simulated_replicas=replicas, accumulation_steps=micro_batches)
        train.run(config, model_dir=str(tmp_path / "parts"), stop_after=stop)
    assert f"changed    since the run began: accumulation_steps: {order[0][1]} -> 2" in capsys.readouterr().out
    rows, others = curve(tmp_path / "whole"), curve(tmp_path / "parts")
    assert [row["step"] for row in rows] == [row["step"] for row in others]
    losses = [[row["loss"] for row in each if row["split"] == "train"] for each in (rows, others)]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-3)
    assert_close(tmp_path / "whole", tmp_path / "parts", rtol=1e-2, atol=1e-4)
    assert final_weights(tmp_path / "whole").keys() == final_weights(tmp_path / "parts").keys()


@pytest.mark.usefixtures("one_step_a_call")
def test_divergence_names_metric_and_window_and_keeps_the_last_good_checkpoint(tmp_path, quick_config):
    config = quick_config(schedule__learning_rate=1e38, schedule__warmup_epochs=0.5, schedule__decay="constant")
    # A window is of the four steps of a row.
    windows = "|".join(f"step {step} and step {step + 4}" for step in range(0, 24, 4))
    with pytest.raises(errors.DivergedError, match=rf"loss became (nan|inf) between ({windows})\..*last good"):
        train.run(config, model_dir=str(tmp_path))
    status = json.loads((tmp_path / "status.json").read_text())
    assert status["status"] == "diverged" and "became" in status["reason"]
    path = tf.train.latest_checkpoint(str(tmp_path / "checkpoints"))
    assert path is None or all(
        np.isfinite(value).all() for value in final_weights(tmp_path).values() if value.dtype.kind == "f"
    )


@pytest.mark.slow
def test_a_run_that_may_goes_back_past_the_window_in_which_it_diverged(tmp_path, quick_config, capsys):
    fields = {"schedule__learning_rate": 1e38, "schedule__warmup_epochs": 0.0, "schedule__decay": "constant"}
    config = quick_config(**fields, divergence={"rollbacks": 2, "rate_factor": 1e-39})
    done = resumes(tmp_path, config, 11)
    assert done["status"] == "done" and done["step"] == 24
    # 1e38 is too high, 0.1 is not; the logs are read every 4 updates, and nothing was saved before.
    assert [(each["step"], each["back_to"]) for each in read_json(tmp_path / "whole" / "rollbacks.json")] == [(4, 0)]
    assert "rollback   from step 4 to 0, 4 batches left out, rates x1e-39: loss became" in capsys.readouterr().out
    with pytest.raises(errors.DivergedError, match="loss became"):
        once = quick_config(**fields, divergence={"rollbacks": 1, "rate_factor": 0.5})
        train.run(once, model_dir=str(tmp_path / "once"))
    assert len(read_json(tmp_path / "once" / "rollbacks.json")) == 1


@pytest.mark.parametrize(
    "fields, said",
    [
        ({"optimizer": {"name": "lamb", "learning_rate": 0.1}}, "optimizer.learning_rate cannot be set here"),
        (
            {"optimizer": {"name": "adamw", "use_ema": True, "local_steps": {"every": 2}}},
            "LocalSteps.*use_ema=True.*each replica's own weights",
        ),
        ({"schedule__warmup_epochs": 100.0}, "warm-up of .* is longer than the run"),
        ({"keep_checkpoints": 1}, "expected 2 or more"),
        ({"evaluate_on": "valid"}, "evaluate_on='valid' is unknown"),
        ({"model__hidden_units": 0}, "hidden_units=0.*expected"),
        ({"schedule__warmup": "3 steps", "schedule__warmup_epochs": 0.1}, "give one of the two"),
        ({"phases": ({}, {"seed": 3})}, "phases, phase 2: seed=3: the phases of a run may differ in batch_size"),
    ],
)
def test_bad_fields_are_refused_before_anything_is_written(tmp_path, quick_config, fields, said):
    with pytest.raises(ValueError, match=said):
        train.run(quick_config(**fields), model_dir=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()
