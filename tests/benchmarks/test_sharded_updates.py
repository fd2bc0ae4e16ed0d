"""The benchmark of sharded updates: its arithmetic, what it refuses, and one smoke run each way."""

import json
import os
import subprocess
import sys

import pytest

from tests.helpers import preloaded
from tests.helpers.preloaded import ROOT

BENCH = os.path.join(ROOT, "benchmarks", "sharded_updates.py")

SUMMARISED = """
import sys; sys.path.insert(0, "benchmarks")
import json, sharded_updates
rounds = [
    {part: {"whole": 0.3 * scale, "sharded": 0.1 * scale} for part in sharded_updates.PARTS} for scale in (1, 2, 3)
]
alone = {
    way: [{"state_bytes": {way: each * 1e6}, "peak_bytes": 2e6 * each} for each in sizes]
    for way, sizes in (("whole", (8, 8)), ("sharded", (5, 3)))
}
print(json.dumps(sharded_updates.summary([{"rounds": rounds}], alone)))
"""


def test_the_summary_is_of_rounds_and_of_the_process_that_has_most():
    outcome = subprocess.run([sys.executable, "-c", SUMMARISED], cwd=ROOT, capture_output=True, text=True)
    found = json.loads(outcome.stdout.splitlines()[-1])
    assert found["update_whole_ms"] == pytest.approx(600.0) and found["update_and_sum_ratio"] == pytest.approx(3.0)
    assert (found["state_whole_mb"], found["state_sharded_mb"], found["peak_sharded_mb"]) == (8.0, 5.0, 10.0)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--model=tiny"], "Give --replicas"),
        (["--model=tiny", "--replicas=2", "--results=nowhere/x.json"], "there is no directory nowhere"),
    ],
)
def test_what_cannot_be_measured_is_refused_at_once(arguments, message):
    outcome = preloaded.run(BENCH, *arguments)
    assert outcome.returncode and message in outcome.stderr


@pytest.mark.slow
@pytest.mark.parametrize("size", ["--replicas=2", "--workers=2"])
def test_it_measures(tmp_path, size):
    outcome = preloaded.run(BENCH, "--model=tiny", size, "--repeats=1", f"--results={tmp_path}/results.json")
    assert outcome.returncode == 0, outcome.stderr
    stored = json.loads((tmp_path / "results.json").read_text())
    assert stored["summary"]["state_sharded_mb"] < stored["summary"]["state_whole_mb"]
