"""A run directory as files for others: what is written, that it computes the same, and what is refused."""

import dataclasses
import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.preloaded import tfbigbatch as command
from tfbigbatch import load_run, train
from tfbigbatch.config import new_config
from tfbigbatch.export import export_run
from tfbigbatch.export.run import ABOUT

IMAGES = np.random.default_rng(0).integers(0, 17, (4, 8, 8)).astype(np.uint8)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("export") / "run")
    config = new_config("digits_lstm")
    config.model.hidden_units = 4
    config.duration = config.checkpoint_every = config.evaluate_every = "1 steps"
    train.run(config, model_dir=folder, use_fake_data=True)
    return folder


def test_all_formats_compute_what_the_run_computes(run, tmp_path):
    exported = export_run(run, tmp_path / "out")
    assert exported.step == 1 and not exported.skipped and list(exported.files) == ["keras", "saved_model", "weights"]
    network = load_run(run).network
    logits = network(IMAGES).numpy()
    loaded = keras.saving.load_model(exported.files["keras"])
    np.testing.assert_allclose(loaded(IMAGES), logits, rtol=1e-5, atol=1e-6)
    served = tf.saved_model.load(exported.files["saved_model"]).signatures["serving_default"](
        images=tf.constant(IMAGES)
    )
    np.testing.assert_allclose(served["logits"], logits, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(tf.reduce_sum(served["probabilities"], -1), np.ones(4), rtol=1e-6)
    assert np.array_equal(served["class"], logits.argmax(-1)) and "class_name" not in served
    network.set_weights([np.zeros(weight.shape) for weight in network.weights])
    network.load_weights(exported.files["weights"])
    assert np.array_equal(network(IMAGES), logits)
    about = json.loads((tmp_path / "out" / ABOUT).read_text())
    assert about["step"] == 1 and about["task"] == "digits_lstm" and about["metrics"] == load_run(run).metrics
    assert "raw pixel values, uint8 [n, 8, 8]" in about["signature"] == exported.signature


READ_ALONE = """
import sys
sys.modules["tfbigbatch"] = None
import numpy as np, tensorflow as tf
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
np.testing.assert_allclose(serve(images=np.load("images.npy"))["logits"], np.load("logits.npy"), rtol=1e-5, atol=1e-6)
"""


def test_a_saved_model_is_served_without_the_package(run, tmp_path):
    exported = export_run(run, tmp_path / "out", formats=["saved_model"])
    np.save(tmp_path / "images.npy", IMAGES)
    np.save(tmp_path / "logits.npy", load_run(run).network(IMAGES))
    command = [sys.executable, "-c", READ_ALONE, exported.files["saved_model"]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@keras.saving.register_keras_serializable("tests")
class Unsaved(keras.layers.Layer):
    def call(self, inputs):
        return inputs

    def get_config(self):
        raise NotImplementedError("it has a function in it")


def test_a_format_that_cannot_hold_the_network_is_skipped_or_refused(run, tmp_path, monkeypatch):
    pixels = keras.Input((8, 8), dtype="uint8", name="images")
    network = keras.Model(pixels, keras.layers.Dense(10)(keras.layers.Flatten()(Unsaved()(pixels))), name="mine")
    loaded = dataclasses.replace(load_run(run), network=network)
    monkeypatch.setattr("tfbigbatch.export.run.load_run", lambda *args, **options: loaded)
    exported = export_run(run, tmp_path / "out")
    assert list(exported.files) == ["saved_model", "weights"]
    why = "model 'mine' cannot be saved by Keras: it has a function in it A layer of your own needs get_config"
    assert why in exported.skipped["keras"] and "export it as saved_model or weights" in exported.skipped["keras"]
    with pytest.raises(ValueError, match="model 'mine' cannot be saved by Keras"):
        export_run(run, tmp_path / "other", formats=["keras"])
    assert not os.path.exists(tmp_path / "other")


def test_an_export_is_replaced_only_where_asked_and_nothing_else_ever(run, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    first = export_run(run, folder, formats=["keras"])
    assert sorted(os.listdir(folder)) == [ABOUT, "model.keras"] and list(first.files) == ["keras"]
    with pytest.raises(ValueError, match="holds an export. Choose another folder, or overwrite it"):
        export_run(run, folder)
    export_run(run, folder, formats=["weights"], overwrite=True)
    assert sorted(os.listdir(folder)) == [ABOUT, "model.weights.h5"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match="exists and is not an export. Choose another folder"):
        export_run(run, other, overwrite=True)
    assert os.listdir(other) == ["thesis.txt"] and sorted(os.listdir(tmp_path)) == ["other", "out"]


def test_a_failure_leaves_the_earlier_export(run, tmp_path, monkeypatch):
    folder = tmp_path / "out"
    export_run(run, folder, formats=["keras"])
    monkeypatch.setattr("tfbigbatch.export.run.write_json", _full)
    with pytest.raises(ValueError, match="out cannot be written: No space left"):
        export_run(run, folder, formats=["keras"], overwrite=True)
    assert os.listdir(tmp_path) == ["out"] and keras.saving.load_model(folder / "model.keras")


def _full(path, content):
    raise OSError(28, "No space left on device")


def test_the_best_checkpoint_and_a_step(run, tmp_path):
    assert export_run(run, tmp_path / "best", checkpoint="best", formats=["keras"]).step == 1
    with pytest.raises(ValueError, match="has no checkpoint of this step; it has 1."):
        export_run(run, tmp_path / "seventh", checkpoint=7)
    assert not os.path.exists(tmp_path / "seventh")


def test_the_command(run, tmp_path):
    done = command("export", run, f"--output={tmp_path}/out", "--format=keras,saved_model", "--checkpoint=best")
    assert done.returncode == 0, done.stderr
    assert "exported   the checkpoint of step 1" in done.stdout and "serving_default takes 'images'" in done.stdout
    for arguments, message in (
        ((), "expected one run directory, not 0"),
        ((run, "--format=onnx"), "format 'onnx' is unknown"),
        ((run, "--checkpoint=last"), "checkpoint='last': expected 'newest', 'best', or a step"),
        ((str(tmp_path),), "holds no run"),
    ):
        refused = command("export", *arguments)
        assert refused.returncode == 1 and message in refused.stderr and "Traceback" not in refused.stderr
