"""The benchmark of an experiment's input: one smoke run, and what it refuses."""

import json
import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run(*arguments):
    command = [sys.executable, os.path.join("benchmarks", "input.py"), "--turns=2", "--batches=3", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_an_input_is_timed(tmp_path):
    results = tmp_path / "input.json"
    outcome = run("--config=experiments/digits/lstm_legw.py", "--batch_size=32", f"--results={results}")
    assert outcome.returncode == 0, outcome.stderr
    assert "examples a second of a core" in outcome.stdout
    stored = json.loads(results.read_text())
    assert len(stored["turns"]) == 2 and all(rate > 0 for rate in stored["median"].values())


@pytest.mark.slow
def test_a_phase_that_is_not_there_is_told():
    outcome = run("--config=experiments/bert/lamb.py:512", "--phase=3")
    assert outcome.returncode == 1 and "the run has 2 phase(s)" in outcome.stderr
