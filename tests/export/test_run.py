"""A run directory as files for others: what is written, that it computes the same, and what is refused."""

import json
import os

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.helpers.preloaded import tfbigbatch as command
from tfbigbatch import experiment, load_run, train
from tfbigbatch.export import export_run
from tfbigbatch.export.run import ABOUT

IMAGES = np.random.default_rng(0).integers(0, 17, (4, 8, 8)).astype(np.uint8)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("export") / "run")
    config = experiment.new("digits_lstm")
    config.model.hidden_units = 4
    config.duration = config.checkpoint_every = config.evaluate_every = "1 steps"
    train.run(config, model_dir=folder, use_fake_data=True)
    return folder


def test_all_formats_compute_what_the_run_computes(run, tmp_path):
    exported = export_run(run, tmp_path / "out")
    assert exported.step == 1 and not exported.skipped and list(exported.files) == ["keras2", "keras3", "saved_model"]
    logits = load_run(run).network(IMAGES).numpy()
    two = tf_keras.models.load_model(exported.files["keras2"])
    three = keras.saving.load_model(exported.files["keras3"])
    assert np.array_equal(two(IMAGES), logits)
    np.testing.assert_allclose(three(IMAGES), logits, rtol=1e-4, atol=1e-6)
    served = tf.saved_model.load(exported.files["saved_model"]).signatures["serving_default"](
        images=tf.constant(IMAGES)
    )
    np.testing.assert_allclose(served["logits"], logits, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(tf.reduce_sum(served["probabilities"], -1), np.ones(4), rtol=1e-6)
    assert np.array_equal(served["class"], logits.argmax(-1)) and "class_name" not in served
    about = json.loads((tmp_path / "out" / ABOUT).read_text())
    assert about["step"] == 1 and about["task"] == "digits_lstm" and about["metrics"] == load_run(run).metrics
    assert "raw pixel values, uint8 [n, 8, 8]" in about["signature"] == exported.signature


def test_an_export_is_replaced_only_where_asked_and_nothing_else_ever(run, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    first = export_run(run, folder, formats=["keras2"])
    assert sorted(os.listdir(folder)) == [ABOUT, "keras2.keras"] and list(first.files) == ["keras2"]
    with pytest.raises(ValueError, match="holds an export. Choose another folder, or overwrite it"):
        export_run(run, folder)
    export_run(run, folder, formats=["keras3"], overwrite=True)
    assert sorted(os.listdir(folder)) == [ABOUT, "keras3.keras"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match="exists and is not an export. Choose another folder"):
        export_run(run, other, overwrite=True)
    assert os.listdir(other) == ["thesis.txt"] and sorted(os.listdir(tmp_path)) == ["other", "out"]


def test_a_failure_leaves_the_earlier_export(run, tmp_path, monkeypatch):
    folder = tmp_path / "out"
    export_run(run, folder, formats=["keras2"])
    monkeypatch.setattr("tfbigbatch.export.run.write_json", _full)
    with pytest.raises(ValueError, match="out cannot be written: No space left"):
        export_run(run, folder, formats=["keras2"], overwrite=True)
    assert os.listdir(tmp_path) == ["out"] and tf_keras.models.load_model(folder / "keras2.keras")


def _full(path, content):
    raise OSError(28, "No space left on device")


def test_the_best_checkpoint_and_a_step(run, tmp_path):
    assert export_run(run, tmp_path / "best", checkpoint="best", formats=["keras2"]).step == 1
    with pytest.raises(ValueError, match="has no checkpoint of this step; it has 1."):
        export_run(run, tmp_path / "seventh", checkpoint=7)
    assert not os.path.exists(tmp_path / "seventh")


def test_the_command(run, tmp_path):
    done = command("export", run, f"--output={tmp_path}/out", "--format=keras2,saved_model", "--checkpoint=best")
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
