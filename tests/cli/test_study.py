"""Studies, comparisons and tuning grids by their command."""

import json
import signal
import subprocess
import sys
import time

import pytest

from tests.helpers.preloaded import ROOT, tfbigbatch
from tfbigbatch.runs.metrics_log import read_rows

TINY = """
from tfbigbatch import experiment


def get_config():
    config = experiment.new("digits_lstm")
    config.model.hidden_units = 4
    config.batch_size = {batch_size}
    config.duration = "12 steps"
    config.evaluate_every = "4 steps"
    config.checkpoint_every = "6 steps"
    return config
"""


@pytest.mark.slow  # As a study, but for its flags.
def test_configs_are_compared_and_not_run_again(tmp_path):
    for batch_size in (32, 64):
        (tmp_path / f"batch_{batch_size}.py").write_text(TINY.format(batch_size=batch_size))
    arguments = [
        f"--configs={tmp_path}/batch_32.py,{tmp_path}/batch_64.py",
        f"--model_dir={tmp_path}/runs",
        f"--results={tmp_path}/results",
        "--seeds=0,1",
    ]
    first = tfbigbatch("study", *arguments)
    assert first.returncode == 0, first.stderr
    assert "[4/4] batch_64 at 64, seed 1: test accuracy" in first.stdout and "| batch_32 |" in first.stdout
    runs = json.loads((tmp_path / "results.json").read_text())["runs"]
    assert [len(run["values"]) for run in runs] == [2, 2]
    for file in ("results.md", "results_curves.png", "runs/batch-32/batch-32/seed-1/status.json"):
        assert (tmp_path / file).exists()

    again = tfbigbatch("study", *arguments)
    assert again.returncode == 0 and again.stdout.count("nothing to do") == 4
    assert json.loads((tmp_path / "results.json").read_text())["runs"] == runs


@pytest.mark.slow  # As long as a study's test, and the same machinery.
def test_a_grid_is_tried(tmp_path):
    (tmp_path / "tiny.py").write_text(TINY.format(batch_size=32))
    outcome = tfbigbatch(
        "study",
        f"--config={tmp_path}/tiny.py",
        f"--model_dir={tmp_path}/tune",
        "--learning_rates=0.01,0.5",
        "--sweep.schedule.warmup_epochs=0,0.1",
        "--config.model.hidden_units=3",
        "--config.duration=4 steps",
    )
    assert outcome.returncode == 0, outcome.stderr
    assert "schedule.learning_rate=0.5 schedule.warmup_epochs=0.1" in outcome.stdout
    stored = json.loads((tmp_path / "tune" / "report.json").read_text())["runs"]
    assert [run["steps"] for run in stored] == [4] * 4 and stored[0]["config"]["model"]["hidden_units"] == 3
    assert [run["config"]["schedule"]["learning_rate"] for run in stored] == [0.01, 0.01, 0.5, 0.5]


STUDY = """
from tfbigbatch import experiment
from tfbigbatch.studies import study


def get_study():
    table = study.new("Digits", baseline="small", target=0.99)
    config = experiment.new("digits_lstm")
    config.model.hidden_units = 4
    config.duration = "1000 steps"
    config.evaluate_every = config.checkpoint_every = "100 steps"
    table.add("small", config)
    config.batch_size = 64
    table.add("large", config)
    return table
"""


@pytest.mark.slow
def test_a_study_in_two_processes_is_stopped_and_goes_on(tmp_path):
    (tmp_path / "study.py").write_text(STUDY)
    arguments = [f"--study={tmp_path}/study.py", f"--model_dir={tmp_path}/runs"]
    command = [sys.executable, "-m", "tfbigbatch", "study", *arguments, "--processes=2"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    logs = [tmp_path / "runs" / name / "seed-0" / "metrics.jsonl" for name in ("small/batch-32", "large/batch-64")]
    while not all(any(row["step"] >= 100 for row in read_rows(log)) for log in logs):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 42, err
    assert (
        out.count("stopped; it resumes from its checkpoint") == 2
        and "| stopped at" in out
        and "same command resumes" in out
    )
    assert "0 of 1" in (tmp_path / "runs" / "report.md").read_text()

    again = tfbigbatch("study", *arguments, "--processes=2")
    assert again.returncode == 0, again.stderr
    assert "[2/2]" in again.stdout and "stopped" not in again.stdout
    assert f"{tmp_path}/runs/report_batch.png" in again.stdout
    assert "resume     from the checkpoint of step" in (tmp_path / "runs/small/batch-32/seed-0.log").read_text()
    results = json.loads((tmp_path / "runs" / "report.json").read_text())
    assert [run["status"] for run in results["runs"]] == [["done"], ["done"]]

    report = tfbigbatch("report", *arguments, f"--results={tmp_path}/new/folder")
    assert report.returncode == 0, report.stderr
    assert json.loads((tmp_path / "new" / "folder.json").read_text()) == results
