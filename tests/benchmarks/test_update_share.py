"""The share of a step that an update takes."""

import json

import pytest

from tests.helpers import preloaded


@pytest.mark.slow  # Traces a network.
def test_the_shares_of_an_experiment_are_a_row_of_a_table(tmp_path):
    experiment = "digits/lstm_small_batch"
    results = tmp_path / "share"
    outcome = preloaded.run(
        "benchmarks/update_share.py", f"--experiments={experiment}=", "--repeats=1", f"--results={results}"
    )
    assert outcome.returncode == 0, outcome.stderr
    measured = json.loads(results.with_suffix(".json").read_text())[experiment]
    update, gradients = measured["updates"]["Muon"], measured["gradients"]
    # A larger batch takes as many times the gradients of 256 examples.
    passes = [gradients["64"], 4 * gradients["256"], 32 * gradients["256"]]
    shares = [f"{100 * update / (update + seconds):.1f}%" for seconds in passes]
    [row] = [line for line in results.with_suffix(".md").read_text().splitlines() if experiment in line]
    assert [cell.strip() for cell in row.split("|")][-4:-1] == shares


def test_an_experiment_without_a_folder_is_refused():
    outcome = preloaded.run("benchmarks/update_share.py", "--experiments=digits/lstm_small_batch", "--results=share")
    assert outcome.returncode == 1
    assert "expected EXPERIMENT=FOLDER of each" in outcome.stderr
