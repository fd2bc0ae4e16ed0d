"""The trained network of a run directory, without its data."""

import json
import math
import os
import shutil
import sys

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tfbigbatch
from tfbigbatch import experiment, train
from tfbigbatch.export.run import export_run
from tfbigbatch.runs import initial_weights, network_file, stored_run
from tfbigbatch.runs.metrics_log import read_rows

IMAGES = np.random.default_rng(0).integers(0, 17, (4, 8, 8)).astype(np.uint8)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("load") / "run")
    config = experiment.new("digits_lstm")
    config.model.hidden_units = 4
    config.duration, config.evaluate_every, config.checkpoint_every = "2 steps", "2 steps", "1 steps"
    result = train.run(config, model_dir=folder, use_fake_data=True)
    return folder, result


def test_it_gives_network_config_step_and_metrics(run):
    folder, result = run
    loaded = tfbigbatch.load_run(folder)
    assert loaded.step == 2 and loaded.metrics == pytest.approx(result["metrics"])
    assert loaded.config.task == "digits_lstm" and loaded.config.model.hidden_units == 4
    with pytest.raises(AttributeError, match="locked"):
        loaded.config.batch = 3
    reader = tf.train.load_checkpoint(os.path.join(folder, "checkpoints", "step-2"))
    kernel = reader.get_tensor("network/layer_with_weights-1/kernel/.ATTRIBUTES/VARIABLE_VALUE")
    assert np.array_equal(kernel, loaded.network.get_layer("logits").kernel)


def test_a_metric_that_was_not_finite_is_nan(run, tmp_path):
    copy = shutil.copytree(run[0], tmp_path / "run")
    (row,) = [row for row in read_rows(copy / "metrics.jsonl") if row["split"] == "eval"]
    (copy / "metrics.jsonl").write_text(json.dumps({**row, "cross_entropy": None}) + "\n")
    metrics = tfbigbatch.load_run(str(copy)).metrics
    assert math.isnan(metrics["cross_entropy"]) and metrics["accuracy"] == row["accuracy"]


@pytest.mark.parametrize("name", ["lr=[0.1]", "a\\b"])
def test_a_run_in_a_folder_whose_name_looks_like_a_pattern(run, tmp_path, name):
    copy = shutil.copytree(run[0], tmp_path / name / "run")
    loaded = tfbigbatch.load_run(copy)
    assert np.array_equal(loaded.network(IMAGES), tfbigbatch.load_run(run[0]).network(IMAGES))
    network = tfbigbatch.load_run(copy, 1).network
    found = initial_weights.load_into(network, stored_run.checkpoint_at(str(copy)))
    assert not found.missing and np.array_equal(network(IMAGES), loaded.network(IMAGES))
    network.save_weights(str(tmp_path / name / "own.weights.h5"))
    assert initial_weights.load_into(network, str(tmp_path / name / "own.weights.h5")).matched


def test_the_home_folder_may_be_a_tilde(run, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    shutil.copytree(run[0], tmp_path / "run")
    # A finished run, which says so.
    config = experiment.new("digits_lstm")
    config.model.hidden_units = 4
    config.duration, config.evaluate_every, config.checkpoint_every = "2 steps", "2 steps", "1 steps"
    assert train.run(config, model_dir="~/run", use_fake_data=True)["step"] == 2
    found = tfbigbatch.load_run("~/run")
    assert found.step == 2 and found.directory == str(tmp_path / "run")
    assert export_run("~/run", "~/exported", formats=["keras2"]).folder == str(tmp_path / "exported")
    assert train.run(config, model_dir="~/next", init_from="~/run", use_fake_data=True, stop_after=1)["step"] == 1
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


def test_a_run_of_an_earlier_version_is_built_by_its_task(run, tmp_path):
    folder, _ = run
    old = _copy(folder, tmp_path / "old", best=None)
    os.remove(old / network_file.NAME)
    assert np.array_equal(tfbigbatch.load_run(old).network(IMAGES), tfbigbatch.load_run(folder).network(IMAGES))
    # The classes of a run on images are in the file alone.
    config = (old / "config.json").read_text()
    image_config = experiment.new("image_classification", model="resnet_cifar").to_json()
    (old / "config.json").write_text(f'{{"config": {image_config}}}')
    with pytest.raises(
        ValueError, match=r"depends on its data .* has no network.json. Give the folder .* data_dir=DIR"
    ):
        tfbigbatch.load_run(old)
    (old / "config.json").write_text(config)
    (old / network_file.NAME).write_text("[1]")
    with pytest.raises(ValueError, match="holds a list; expected a dictionary"):
        tfbigbatch.load_run(old)


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


def test_a_network_that_keras_cannot_describe_or_build_is_not_taken_from_the_file(tmp_path):
    class Own(tf_keras.Model):
        def __init__(self, size):
            super().__init__()

        def get_config(self):
            return {"size": object()}

    assert network_file.content(Own(3)) is None
    # Keras describes it by its arguments, and builds no weights before the first call.
    (tmp_path / network_file.NAME).write_bytes(network_file.content(tf_keras.Sequential([tf_keras.layers.Dense(3)])))
    assert "no weights before its first call" in network_file.load(tmp_path)


def described(*layers):
    """What network.json holds of a sequential model on three numbers."""
    model = tf_keras.Sequential([tf_keras.Input((3,)), tf_keras.layers.Dense(1, kernel_regularizer="l2"), *layers])
    return json.loads(network_file.content(model))


def layer(class_name, **config):
    return {"module": "keras.layers", "class_name": class_name, "config": config, "registered_name": None}


SYSTEM = {"class_name": "function", "module": "os", "config": "system", "registered_name": "system"}


@pytest.mark.parametrize(
    "added, named",
    [
        (layer("Lambda", function="system", function_type="function", module="os", arguments={}), "names os:"),
        (layer("Activation", activation=SYSTEM), "os.system"),
        (layer("Dense", units=1, bias_regularizer={**SYSTEM, "class_name": "Popen"}), "os.Popen"),
        ({"module": "antigravity", "class_name": "Layer", "config": {}, "registered_name": None}, "antigravity.Layer"),
        ({"module": "keras.utils", "class_name": "function", "config": "get_file"}, "keras.utils.get_file"),
        ({"module": "tf_keras.src.utils.data_utils", "class_name": "get_file", "config": {}}, "get_file"),
        (layer("TFOpLambda", function="io.write_file", name="write"), "tf.io.write_file"),
        (layer("TFOpLambda", function="numpy_function", name="call"), "tf.numpy_function"),
        (layer("ClassMethod", cls_symbol="io.gfile.GFile", method_name="read"), "tf.io.gfile.GFile"),
    ],
)
def test_a_network_that_names_what_is_no_layer_is_not_built(tmp_path, added, named):
    network = described()
    network["config"]["layers"].append(added)
    (tmp_path / network_file.NAME).write_text(json.dumps(network))
    reason = network_file.load(str(tmp_path))
    assert isinstance(reason, str) and named in reason and "neither a layer of Keras, nor registered" in reason
    assert "antigravity" not in sys.modules


def test_a_network_of_keras_layers_is_built(tmp_path):
    (tmp_path / network_file.NAME).write_text(json.dumps(described()))
    assert isinstance(network_file.load(str(tmp_path)), tf_keras.Model)
