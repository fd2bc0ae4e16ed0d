"""The benchmark of shared orthogonalisations: its arithmetic, what it refuses, and one smoke run each way."""

import json
import os
import subprocess
import sys

import pytest

from tests.helpers import preloaded
from tests.helpers.preloaded import ROOT

BENCH = os.path.join(ROOT, "benchmarks", "sharing.py")

SUMMARISED = """
import sys; sys.path.insert(0, "benchmarks")
import json, sharing
rounds = [
    {
        name: {"seconds": seconds * scale, "loopback_bytes": 12e6 * scale}
        for name, seconds in (("repeated", 3.0), ("shared", 2.0))
    }
    for scale in (1, 2, 3)
]
work = sharing.computed("resnet50", 2, is_cluster=True)
print(json.dumps([work.matrices, sharing.summary(rounds, work, 2), sharing.summary(rounds, work, None)]))
"""


def run(*arguments):
    return preloaded.run(BENCH, *arguments)


def test_the_summary_is_of_rounds_and_of_what_a_worker_receives():
    outcome = subprocess.run([sys.executable, "-c", SUMMARISED], cwd=ROOT, capture_output=True, text=True)
    matrices, apart, together = json.loads(outcome.stdout.splitlines()[-1])
    assert matrices == 54
    assert apart["repeated_s"] == 6.0 and apart["shared_s"] == 4.0 and apart["ratio"] == 1.5
    assert apart["shared_gflop"] == pytest.approx(apart["repeated_gflop"] / 2, rel=0.01)
    # Half of 25.5M weights at least.
    assert apart["received_mb"] > 51 and apart["counted_mb"] == 12.0
    assert "received_mb" not in together


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
    assert results["summary"]["shared_s"] > 0 and f"{size} --repeats=1" in results["command"]
