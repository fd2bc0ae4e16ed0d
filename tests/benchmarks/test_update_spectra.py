import pytest

from tests.helpers import preloaded


@pytest.mark.slow  # Traces a network, and steps five optimizers.
def test_the_spectra_of_an_experiment_are_a_table_and_a_figure(tmp_path):
    outcome = preloaded.run(
        "benchmarks/update_spectra.py",
        "--config=experiments/digits/lstm_small_batch.py",
        "--layers=lstm/.*kernel",
        "--steps=2,1",
        "--batch_size=8",
        f"--results={tmp_path}/made/digits",
    )
    assert outcome.returncode == 0, outcome.stderr
    lines = (tmp_path / "made" / "digits.md").read_text().splitlines()
    assert [line.split(" | ")[2] for line in lines if line.startswith("| lstm")] == ["1", "2", "1", "2"]
    assert (tmp_path / "made" / "digits.png").read_bytes().startswith(b"\x89PNG")
