"""The benchmark of the trainer: one smoke run, and who is timed."""

import json
import os
import subprocess
import sys

import pytest

from tfbigbatch import experiment

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCH = os.path.join(ROOT, "benchmarks")


def test_tf_models_official_is_timed_on_its_own_model(monkeypatch):
    monkeypatch.syspath_prepend(BENCH)
    from image_baselines import is_resnet50

    assert is_resnet50(experiment.new("image_classification", model="resnet50"))
    assert not is_resnet50(experiment.new("image_classification", model="resnet18"))
    assert not is_resnet50(experiment.new("digits_lstm"))


@pytest.mark.slow
def test_a_smoke_run_times_both(tmp_path):
    results = tmp_path / "digits.json"
    outcome = subprocess.run(
        [
            sys.executable,
            os.path.join(BENCH, "trainer.py"),
            f"--config={os.path.join(ROOT, 'experiments', 'digits', 'lstm_small_batch.py')}",
            *("--batch_size=32,64", "--turns=1", "--windows=1", "--window_examples=128", f"--results={results}"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert outcome.returncode == 0, outcome.stderr
    first, second = json.loads(results.read_text())["measured"]
    assert (first["batch_size"], second["batch_size"]) == (32, 64)
    assert set(first["median"]) == {"trainer", "plain_keras"} and first["ratio"]["plain_keras"] > 0
