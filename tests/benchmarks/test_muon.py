"""The benchmark of Muon's step: the matrices it takes, and one smoke run."""

import json

import pytest

from tests.helpers import preloaded


@pytest.mark.slow  # Imports JAX and torch where they are installed.
def test_a_smoke_run_compares_peers_that_do_the_same(tmp_path):
    results = tmp_path / "tiny.json"
    outcome = preloaded.run("benchmarks/muon.py", "--model=tiny", "--repeats=1", f"--results={results}")
    assert outcome.returncode == 0, outcome.stderr
    assert "tiny, 2 matrices; medians of 1 rounds" in outcome.stdout
    stored = json.loads(results.read_text())
    assert stored["differences"]["keras"] < 1e-4
    assert stored["differences"]["tfbigbatch, bfloat16"] < 0.1


def test_a_folder_that_is_not_there_is_told_at_once():
    outcome = preloaded.run("benchmarks/muon.py", "--model=tiny", "--results=nowhere/tiny.json")
    assert outcome.returncode == 1
    assert "there is no directory nowhere; make it first" in outcome.stderr
