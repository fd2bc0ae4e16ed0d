"""A task and callbacks of one's own on two workers: the chief's callback ends the run of both."""

import csv
import json
import os
import subprocess
import sys

import pytest

from tests.helpers import preloaded
from tests.test_your_own import code_of

CALLBACKS = """
import diabetes


def get_config():
    config = diabetes.get_config()
    config.duration, config.schedule.warmup_epochs, config.evaluate_every = "24 steps", 0.0, "6 steps"
    return config


def get_callbacks(config, model_dir):
    import tf_keras

    stopping = tf_keras.callbacks.EarlyStopping("val_mae", min_delta=100.0, patience=2)
    return [tf_keras.callbacks.CSVLogger(f"{model_dir}/epochs.csv", append=True), stopping]
"""


@pytest.mark.slow
def test_early_stopping_ends_the_run_of_two_workers(tmp_path):
    (tmp_path / "diabetes.py").write_text(code_of("diabetes.py"))
    (tmp_path / "stopping.py").write_text(CALLBACKS)
    command = [sys.executable, "-m", "tfbigbatch"]
    done = subprocess.run(
        [
            *(*command, "launch-local", "--workers=2", "--", *command, "train", "--config=stopping.py"),
            *("--strategy=multi_worker", "--model_dir=run"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": preloaded.ROOT},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "batch      32 global = 16 per replica x 1 accumulation x 2 replicas" in done.stdout
    status = json.loads((tmp_path / "run" / "status.json").read_text())
    assert (status["status"], status["step"], status["stopped_by"]) == ("done", 18, "EarlyStopping")
    with open(tmp_path / "run" / "epochs.csv", encoding="utf-8") as file:
        assert [row["epoch"] for row in csv.DictReader(file)] == ["0", "1", "2"]
