"""The table of `tfbigbatch soak`, and a short soak."""

import json
import os
import subprocess
import sys

import pytest
import tensorflow as tf

from tfbigbatch.cli import soak
from tfbigbatch.runs.goodput import PARTS

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def row(**fields):
    goodput = {"fraction": 0.8, "wall": 100.0, "repeated_steps": 300, "starts": 3, **dict.fromkeys(PARTS, 5.0)}
    made = {
        "workers": 2,
        "steps": 6000,
        "failures": "kill",
        "checkpoint_every": "continuous",
        "injected": {"kill": 2},
        "exit_codes": {"-9": 2, "0": 1},
        "undisturbed_seconds": 75.0,
        "goodput": goodput,
        "same_bits": True,
        "different": [],
    }
    return {**made, **fields}


def test_the_table_has_a_line_for_each_run():
    lines = soak.table([row(), row(checkpoint_every="1 epochs", same_bits=False, different=["network/kernel"])])
    assert lines[2] == "| 2 | kill | 2 | 3 | 80.0% | 75.0% | 300 | 5.0% | 5.0 | yes |"
    assert "| kill, every 1 epochs |" in lines[3] and lines[3].endswith("| no: network/kernel |")


def test_values_that_differ_in_one_bit_are_named(tmp_path):
    for name, value in (("a", 1.0), ("b", 1.0), ("c", 1.0000001)):
        tf.train.Checkpoint(x=tf.Variable(value), y=tf.Variable(2)).write(str(tmp_path / name / "checkpoints/step-1"))
    assert soak.different_values(str(tmp_path / "a"), str(tmp_path / "b")) == []
    assert soak.different_values(str(tmp_path / "a"), str(tmp_path / "c")) == ["x/.ATTRIBUTES/VARIABLE_VALUE"]
    with pytest.raises(ValueError, match="holds no checkpoint to compare"):
        soak.different_values(str(tmp_path / "a"), str(tmp_path / "none"))


@pytest.mark.slow
def test_a_soak_ends_in_the_same_bits_and_is_not_repeated(tmp_path):
    command = [sys.executable, "-m", "tfbigbatch", "soak", f"--model_dir={tmp_path}/runs", "--workers=1"]
    command += ["--failures=kill,terminate", "--steps=3000", "--mean_time_between_failures=8", "--minutes=5"]
    command += [f"--results={tmp_path}/results/soak", "--flags=--config.model.hidden_units=8"]
    for _ in range(2):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ROOT})
        assert done.returncode == 0, done.stdout + done.stderr
        rows = [json.loads(line) for line in (tmp_path / "results" / "soak.jsonl").read_text().splitlines()]
        assert [each["failures"] for each in rows] == ["none", "kill", "terminate"]
        assert all(each["same_bits"] for each in rows) and (tmp_path / "results" / "soak.md").exists()
