"""The share of a step that an update takes."""

import os

import pytest

from tests.helpers import preloaded
from tests.helpers.preloaded import ROOT


@pytest.fixture
def update_share(monkeypatch):
    monkeypatch.syspath_prepend(os.path.join(ROOT, "benchmarks"))
    import update_share

    return update_share


def test_a_larger_batch_takes_as_many_times_the_gradients_of_a_part(update_share):
    measured = {"gradients": {64: 0.1, 256: 0.3}, "updates": {"Muon": 0.1}}
    shares = [update_share.share(measured, "Muon", size) for size in update_share.BATCH_SIZES]
    assert shares == pytest.approx([0.5, 0.1 / 1.3, 0.1 / 9.7])


@pytest.mark.slow  # Traces a network.
def test_an_experiment_is_a_row_of_a_table(tmp_path):
    outcome = preloaded.run(
        "benchmarks/update_share.py",
        "--experiments=digits/lstm_small_batch=",
        "--repeats=1",
        f"--results={tmp_path}/share",
    )
    assert outcome.returncode == 0, outcome.stderr
    assert "| digits/lstm_small_batch |" in (tmp_path / "share.md").read_text()
