"""The benchmark beside Keras' own optimizers: its search, its runs, and one tiny measurement."""

import importlib
import json
import math
import os
import sys

import pytest

from tests.helpers import preloaded

FOLDER = os.path.join(preloaded.ROOT, "benchmarks", "keras_own")


@pytest.fixture
def modules(monkeypatch):
    """The benchmark's modules, by name."""
    monkeypatch.syspath_prepend(FOLDER)
    names = ("search", "tasks", "programs")
    yield {name: importlib.import_module(name) for name in names}
    for name in names:
        sys.modules.pop(name)


@pytest.mark.parametrize(
    "best, trials, expected",
    [
        (0.03, 6, [0.02, 0.005, 0.08, 0.04, 0.0283, 0.0336]),
        (0.3, 6, [0.02, 0.005, 0.08, 0.32, 1.28, 0.16]),
        (10.0, 9, [0.02, 0.005, 0.08, 0.32, 1.28, 5.12, 20.5]),
        (1e9, 9, [0.02, 0.005, 0.08, 0.32, 1.28]),
    ],
)
def test_a_search_follows_the_best_beyond_its_end_and_between_its_neighbours(modules, best, trials, expected):
    found = []

    def run(rate):
        found.append(rate)
        return abs(math.log(rate / best))

    chosen, *others = modules["search"].tried(0.02, run)
    assert found[: len(expected)] == pytest.approx(expected, rel=0.02)
    assert chosen == min(found, key=lambda rate: abs(math.log(rate / best)))
    # It ends when the best has neighbours, or after nine.
    assert len(found) == len(others) + 1 and len(found) <= 9
    assert len(found) == 9 or min(found) < chosen < max(found) and len(found) >= 6


def test_a_diverged_trial_is_the_worst(modules):
    chosen, *_ = modules["search"].tried(0.02, lambda rate: math.inf if rate > 0.01 else 1.0)
    assert chosen <= 0.01


@pytest.mark.parametrize("ours, theirs", [("Muon", "Keras Muon"), ("LAMB", "Keras Lamb")])
def test_on_dense_layers_ours_and_theirs_are_the_same_and_a_run_is_its_own(modules, ours, theirs):
    """Muon to rounding; Keras' Lamb decays outside of the trust ratio, and adapts biases."""
    task = modules["tasks"].dense(train=128, epochs=1)
    of_ours, of_theirs = (modules["programs"].Program(task, name, 32) for name in (ours, theirs))
    value, seconds = of_ours.run(0.02, 0, "validation")
    assert seconds > 0
    of_ours.run(0.5, 1, "validation")
    assert of_ours.run(0.02, 0, "validation")[0] == value
    assert of_theirs.run(0.02, 0, "validation")[0] == pytest.approx(value, rel=1e-5 if ours == "Muon" else 0.1)


@pytest.mark.slow  # Traces seven programs.
def test_a_measurement_goes_on_where_it_was_killed(tmp_path):
    outcome = preloaded.run("benchmarks/keras_own/__main__.py", "--tiny", f"--results={tmp_path}")
    assert outcome.returncode == 0, outcome.stderr
    lines = (tmp_path / "runs.jsonl").read_text().splitlines()
    rows = json.loads((tmp_path / "dense.json").read_text())["runs"]
    assert [row["name"] for row in rows[:3]] == ["AdamW", "AdamW, learning rate kept", "AdamW"] and len(rows) == 8
    assert all(len(row["values"]) == 3 and row["standard_deviation"] > 0 for row in rows)
    # The last run is lost, and made again.
    (tmp_path / "runs.jsonl").write_text("\n".join(lines[:-1]) + "\n")
    outcome = preloaded.run("benchmarks/keras_own/__main__.py", "--tiny", f"--results={tmp_path}")
    assert outcome.returncode == 0 and len(outcome.stdout.splitlines()) == 2
    again = json.loads((tmp_path / "dense.json").read_text())["runs"]
    assert [row["values"] for row in again] == [row["values"] for row in rows]
