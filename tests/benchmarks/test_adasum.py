"""The benchmark of Adasum beside an all-reduce: its arithmetic, what it refuses, and one smoke run each way."""

import json
import os
import subprocess
import sys

import pytest

from tests.helpers import preloaded
from tests.helpers.preloaded import ROOT

BENCH = os.path.join(ROOT, "benchmarks", "adasum.py")

SUMMARISED = """
import sys; sys.path.insert(0, "benchmarks")
import json, adasum
times = {"all_reduce": 2.0, "adasum": 3.0}
rounds = [
    {name: {"seconds": seconds * scale, "loopback_bytes": 1200 * scale} for name, seconds in times.items()}
    for scale in (1, 2, 3)
]
print(json.dumps([adasum.summary(rounds, 4, None, 400), adasum.summary(rounds, None, 2, 400)]))
"""


def run(*arguments):
    return preloaded.run(BENCH, *arguments)


def test_the_summary_is_of_rounds_and_of_what_a_worker_sends():
    outcome = subprocess.run([sys.executable, "-c", SUMMARISED], cwd=ROOT, capture_output=True, text=True)
    together, apart = json.loads(outcome.stdout.splitlines()[-1])
    assert together == {"all_reduce_ms": 4000.0, "adasum_ms": 6000.0, "ratio": 1.5, "floor": 9 / 5}
    assert apart["floor"] == 1.0 and apart["adasum_gradients_sent"] == 2400 / 2 / 400


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--model=tiny"], "Give --replicas"),
        (["--model=tiny", "--replicas=2", "--results=nowhere/x.json"], "there is no directory nowhere"),
    ],
)
def test_what_cannot_be_measured_is_refused_at_once(arguments, message):
    outcome = run(*arguments)
    assert outcome.returncode and message in outcome.stderr


@pytest.mark.slow
@pytest.mark.parametrize("size", ["--replicas=2", "--workers=2"])
def test_it_measures(tmp_path, size):
    outcome = run("--model=tiny", size, "--repeats=1", f"--results={tmp_path}/results.json")
    assert outcome.returncode == 0, outcome.stderr
    with open(tmp_path / "results.json", encoding="utf-8") as file:
        results = json.load(file)
    assert results["summary"]["adasum_ms"] > 0 and f"{size} --repeats=1" in results["command"]
