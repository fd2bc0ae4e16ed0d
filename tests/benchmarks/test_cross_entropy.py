import json
import os

import pytest

from tests.helpers import preloaded
from tests.helpers.preloaded import ROOT


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments, rows", [(["--tokens=4", "--vocabulary=7"], 2), (["--config=ptb/small", "--batch_size=2"], 4)]
)
def test_both_losses_take_turns(tmp_path, arguments, rows):
    results = tmp_path / "found.json"
    path = os.path.join(ROOT, "benchmarks", "cross_entropy.py")
    outcome = preloaded.run(path, *arguments, "--repeats=2", f"--results={results}")
    assert outcome.returncode == 0, outcome.stderr
    measured = json.loads(results.read_text())["measured"]
    assert len(measured) == rows and all(row["ratio"] > 0.0 for row in measured)
