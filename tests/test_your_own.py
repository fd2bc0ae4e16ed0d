"""The three experiments of docs/your_own.md: trained, killed, resumed, reported, exported and reloaded."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

import tfbigbatch
from tests.helpers import preloaded
from tests.helpers.repository import read
from tfbigbatch import train
from tfbigbatch.config import execute, load_config
from tfbigbatch.export.run import export_run
from tfbigbatch.reports.report import Report

FILES = ("diabetes.py", "shapes.py", "spirals.py")


def code_of(name):
    page = read("docs", "your_own.md")
    [code] = re.findall(rf"^```python {re.escape(name)}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    return code


@pytest.fixture
def folder(tmp_path):
    """A folder outside of the package, with the page's files and a folder of images."""
    for name in FILES:
        (tmp_path / name).write_text(code_of(name))
    draw = np.random.default_rng(0)
    for channel, name in enumerate(("red", "green", "blue")):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(30):
            pixels = draw.integers(0, 120, [40, 48, 3]).astype(np.uint8)
            pixels[..., channel] += 100
            (tmp_path / "images" / name / f"{number}.png").write_bytes(tf.io.encode_png(pixels).numpy())
    return tmp_path


@pytest.mark.parametrize("name", FILES)
def test_a_file_has_26_lines_at_most(name):
    assert len(code_of(name).splitlines()) <= 26


def features_of(name):
    """A batch of what the experiment's network takes."""
    draw = np.random.default_rng(1)
    if name == "shapes.py":
        return draw.integers(0, 256, [7, 32, 32, 3]).astype("float32")
    return draw.normal(size=[7, 10 if name == "diabetes.py" else 2]).astype("float32")


def check_export(name, run, folder):
    """The network of a run, and its export, give the same outputs."""
    import keras

    loaded = tfbigbatch.load_run(run)
    features = features_of(name)
    expected = loaded.network(features, training=False).numpy()
    exported = export_run(run, str(folder / "exported"))
    assert list(exported.files) == ["keras", "saved_model", "weights"]
    again = keras.saving.load_model(exported.files["keras"])(features, training=False)
    np.testing.assert_allclose(again.numpy(), expected, rtol=1e-5, atol=1e-6)
    serve = tf.saved_model.load(exported.files["saved_model"]).signatures["serving_default"]
    [(given, _)] = serve.structured_input_signature[1].items()
    if name == "shapes.py":
        # The signature takes the bytes of images; of the network's size, they are decoded as they are.
        served = serve(**{given: tf.stack([tf.io.encode_png(tf.cast(each, tf.uint8)) for each in features])})["logits"]
    else:
        [served] = serve(**{given: tf.constant(features)}).values()
    np.testing.assert_allclose(served.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_arrays_and_regression(folder, monkeypatch):
    monkeypatch.chdir(folder)
    config = load_config("diabetes.py")
    config.duration, config.schedule.warmup_epochs = "24 steps", 0.0
    config.evaluate_every = config.checkpoint_every = "8 steps"
    run = str(folder / "runs" / "diabetes")
    assert train.run(config, model_dir=run, stop_after=13)["status"] == "running"
    # The slow test kills it, and compares with a run that was not stopped.
    done = train.run(config, model_dir=run)
    assert done["status"] == "done" and done["metrics"]["mae"] < 1
    assert Report.of_folders([run]).metric.title == "validation mae"
    check_export("diabetes.py", run, folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_it_is_killed_resumed_reported_exported_and_reloaded(name, folder):
    run, whole = str(folder / "runs" / "one"), str(folder / "whole")
    command = [
        *(sys.executable, "-m", "tfbigbatch", "train", f"--config={name}", f"--data_dir={folder}/images"),
        *("--config.evaluate_every=4 steps", "--config.checkpoint_every=4 steps", "--config.duration=40 steps"),
    ]
    if name == "diabetes.py":
        # It brings its own data, and takes no folder.
        command.remove(f"--data_dir={folder}/images")
    environment = {**os.environ, "PYTHONPATH": preloaded.ROOT}
    subprocess.run([*command, f"--model_dir={whole}"], cwd=folder, env=environment, check=True)
    with subprocess.Popen([*command, f"--model_dir={run}"], cwd=folder, env=environment) as process:
        limit = time.monotonic() + 300
        while not _step(run) >= 8 and time.monotonic() < limit:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    killed_at = _step(run)
    assert 8 <= killed_at < 40
    resumed = subprocess.run(
        [*command, f"--model_dir={run}"], cwd=folder, env=environment, check=True, capture_output=True, text=True
    )
    assert "resume     from the checkpoint of step" in resumed.stdout
    statuses = [json.loads((folder / path / "status.json").read_text()) for path in ("whole", "runs/one")]
    assert statuses[0]["metrics"] == statuses[1]["metrics"] and statuses[1]["status"] == "done"
    # What a run directory needs is in it: the experiment file is gone.
    os.rename(folder / name, folder / "away.txt")
    copy = f"--register={run}/experiment.py"
    reported = preloaded.tfbigbatch("report", run, f"--results={folder}/report", copy, folder=folder)
    assert reported.returncode == 0, reported.stderr
    exported = preloaded.tfbigbatch("export", run, copy, folder=folder)
    assert exported.returncode == 0, exported.stderr
    execute(f"{run}/experiment.py")
    check_export(name, run, folder)


def _step(run):
    try:
        with open(os.path.join(run, "status.json"), encoding="utf-8") as file:
            return json.load(file)["step"]
    except (FileNotFoundError, ValueError):
        return 0
