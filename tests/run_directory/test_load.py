"""The trained network of a run directory, without its data."""

import json
import math
import os
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfbigbatch
from tfbigbatch import tasks, train
from tfbigbatch.config import make_quick, new_config
from tfbigbatch.export.run import export_run
from tfbigbatch.run_directory import weights
from tfbigbatch.run_directory.directory import RunDirectory
from tfbigbatch.run_directory.metrics_log import read_rows

IMAGES = np.random.default_rng(0).integers(0, 17, (4, 8, 8)).astype(np.uint8)


def short_config():
    config = new_config("digits_lstm")
    config.model.hidden_units = 4
    config.duration, config.evaluate_every, config.checkpoint_every = "2 steps", "2 steps", "1 steps"
    return config


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    # TensorFlow would take the name for a pattern.
    folder = str(tmp_path_factory.mktemp("load") / "lr=[0.1], a\\b" / "run")
    result = train.run(short_config(), model_dir=folder, use_fake_data=True)
    return folder, result


def test_it_gives_network_config_step_and_metrics(run):
    folder, result = run
    loaded = tfbigbatch.load_run(folder)
    assert loaded.step == 2 and loaded.metrics == pytest.approx(result["metrics"])
    assert loaded.config.task == "digits_lstm" and loaded.config.model.hidden_units == 4
    with pytest.raises(AttributeError, match="locked"):
        loaded.config.batch = 3
    kernel = weights.read(os.path.join(folder, "checkpoints", "step-2"))["logits/kernel"]
    assert np.array_equal(kernel, loaded.network.get_layer("logits").kernel)


def test_a_metric_that_was_not_finite_is_nan(run, tmp_path):
    copy = shutil.copytree(run[0], tmp_path / "run")
    (row,) = [row for row in read_rows(copy / "metrics.jsonl") if row["split"] == "eval"]
    (copy / "metrics.jsonl").write_text(json.dumps({**row, "cross_entropy": None}) + "\n")
    metrics = tfbigbatch.load_run(str(copy)).metrics
    assert math.isnan(metrics["cross_entropy"]) and metrics["accuracy"] == row["accuracy"]


def test_the_home_folder_may_be_a_tilde(run, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    shutil.copytree(run[0], tmp_path / "run[1]")
    # A finished run, which says so.
    config = short_config()
    assert train.run(config, model_dir="~/run[1]", use_fake_data=True)["step"] == 2
    found = tfbigbatch.load_run("~/run[1]")
    assert found.step == 2 and found.directory == str(tmp_path / "run[1]")
    assert export_run("~/run[1]", "~/exported", formats=["keras"]).folder == str(tmp_path / "exported")
    assert train.run(config, model_dir="~/next", init_from="~/run[1]", use_fake_data=True, stop_after=1)["step"] == 1
    assert not os.path.exists("~") and (tmp_path / "next" / "config.json").exists()


def test_checkpoints_by_step_and_the_best(run, tmp_path):
    folder, _ = run
    first, last = tfbigbatch.load_run(folder, 1), tfbigbatch.load_run(folder, checkpoint="newest")
    assert first.step == 1 and first.metrics == {}
    assert not np.array_equal(first.network(IMAGES), last.network(IMAGES))
    with pytest.raises(ValueError, match="best holds no checkpoint. The run was not evaluated yet"):
        tfbigbatch.load_run(_copy(folder, tmp_path / "none", best=None), "best")
    best = tfbigbatch.load_run(_copy(folder, tmp_path / "one", best=1), "best")
    assert best.step == 1 and np.array_equal(best.network(IMAGES), first.network(IMAGES))
    for wrong in ("latest", 1.0, None, True):
        with pytest.raises(ValueError, match="expected 'newest', 'best', or a step"):
            tfbigbatch.load_run(folder, wrong)
    with pytest.raises(ValueError, match="has no checkpoint of this step; it has 1, 2."):
        tfbigbatch.load_run(folder, 7)


def _copy(folder, copy, best):
    """A copy of a run directory whose folder `best` has the checkpoint of this step alone."""
    shutil.copytree(folder, copy)
    shutil.rmtree(copy / "best", ignore_errors=True)
    if best is not None:
        os.makedirs(copy / "best")
        for name in os.listdir(copy / "checkpoints"):
            if name.startswith(f"step-{best}."):
                shutil.copy(copy / "checkpoints" / name, copy / "best")
    return copy


def changed(folder, change):
    """Changes the content of a run's config.json in place."""
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    change(content)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file)


def written(folder, task, config):
    """A run directory of a task, with a checkpoint of its network at step 3; and the network."""
    files, trained = RunDirectory(str(folder)), task.network()
    files.open(config.to_dict(), [], {"network_facts": task.network_facts})
    variables = {path: each.value for path, each in weights.by_path(trained).items()}
    tf.train.Checkpoint(weights=variables).write(f"{files.checkpoints}/step-3")
    return files.path, trained


def own(width=3):
    return keras.Sequential([keras.layers.Dense(width), keras.layers.BatchNormalization(), keras.layers.Dense(1)])


@pytest.fixture
def own_run(tmp_path):
    tasks.define("mine", network=own, data=(np.ones([20, 2]), np.ones([20])), loss="mse")
    config = new_config("mine")
    task = tasks.get("mine")(model=config.model.to_dict(), data={}, data_dir=None, use_fake_data=False)
    return written(tmp_path / "run", task, config)


def test_a_users_network_is_itself_whatever_was_built_before(own_run):
    folder, trained = own_run
    # It has taken the names of layers.
    own()
    loaded = tfbigbatch.load_run(folder)
    assert type(loaded.network) is keras.Sequential and loaded.step == 3
    np.testing.assert_equal(loaded.network.get_weights(), trained.get_weights())


def test_a_checkpoint_of_another_network_is_refused_by_the_first_path(own_run):
    folder, _ = own_run
    for width, said in ((4, r"the network has dense/kernel of \[2, 4\]"), (3, None)):
        changed(folder, lambda content: content["config"]["model"].update(width=width))
        if said:
            with pytest.raises(ValueError, match=f"step-3 does not fit the network of the run's config: {said}"):
                tfbigbatch.load_run(folder)
    tasks.define("mine", network=lambda width=3: keras.Sequential([keras.layers.Dense(width)]), data=({}), loss="mse")
    with pytest.raises(ValueError, match="the network has no batch_normalization/beta"):
        tfbigbatch.load_run(folder)


def test_what_the_data_determined_is_in_the_config(tmp_path):
    config = new_config("lstm_language_model")
    make_quick(config)
    task = tasks.get(config.task)(
        model=config.model.to_dict(), data=config.data.to_dict(), data_dir=None, use_fake_data=True
    )
    folder, trained = written(tmp_path / "run", task, config)
    words = task.network_facts["vocabulary_size"]
    np.testing.assert_equal(tfbigbatch.load_run(folder).network.get_weights(), trained.get_weights())
    for wrong in (None, -1, 1.5, "3", 10**400):
        changed(folder, lambda content: content["network_facts"].update(vocabulary_size=wrong))
        with pytest.raises(ValueError, match="network_facts.vocabulary_size is .*; expected a whole number"):
            tfbigbatch.load_run(folder)
    changed(folder, lambda content: content["network_facts"].update(vocabulary_size=words + 1))
    with pytest.raises(ValueError, match="does not fit the network of the run's config"):
        tfbigbatch.load_run(folder)
    changed(folder, lambda content: content.update(network_facts=[1]))
    with pytest.raises(ValueError, match="is not of a run directory"):
        tfbigbatch.load_run(folder)
    changed(folder, lambda content: content.pop("network_facts"))
    with pytest.raises(
        ValueError, match="depends on its data .* has no network_facts. Give the folder .* data_dir=DIR"
    ):
        tfbigbatch.load_run(folder)


def test_a_folder_without_a_run_and_a_damaged_checkpoint_are_refused(run, tmp_path):
    folder, _ = run
    with pytest.raises(ValueError, match="holds no run: it has no config.json"):
        tfbigbatch.load_run(tmp_path)
    copy = _copy(folder, tmp_path / "copy", best=None)
    data = copy / "checkpoints" / "step-2.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(ValueError, match="step-2 is damaged"):
        tfbigbatch.load_run(copy)
    assert tfbigbatch.load_run(copy, 1).step == 1
