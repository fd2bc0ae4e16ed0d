import json

import pytest

from tests.helpers import made_runs
from tfbigbatch import sweeps
from tfbigbatch.config import new_config
from tfbigbatch.reports.report import Report


@pytest.fixture
def made_sweep(tmp_path):
    """A sweep under way: a baseline, a method at two batches, one that collapsed, one running, one not begun."""
    made = sweeps.Sweep("Digits", baseline="baseline", target=0.9)
    config = new_config("digits_lstm")
    made.add("baseline", config, seeds=(0, 1))
    for batch_size in (512, 1024):
        config.batch_size = batch_size
        for method in ("LEGW + LAMB", "naive", "going"):
            made.add(method, config, seeds=(0, 1))
    values = {"baseline": 0.98, "LEGW + LAMB": 0.97, "naive": 0.2}
    for entry in made.entries:
        for seed in entry.seeds:
            directory, config = entry.directory(str(tmp_path), seed), entry.config_at(seed).to_dict()
            if entry.name in values:
                made_runs.write(directory, config, values[entry.name] + seed / 100)
            elif config["batch_size"] == 512:
                made_runs.write(directory, config, status="running", step=5, curve={5: 0.5})
    return made


def test_results_hold_all_rows_and_no_path_and_every_plot_is_drawn(made_sweep, tmp_path):
    report = Report.of_sweep(made_sweep, str(tmp_path))
    path = tmp_path / "results.json"
    report.write_results(str(path))
    stored = json.loads(path.read_text())
    assert stored["target"] == 0.9 and stored["versions"] == [made_runs.VERSIONS] and len(stored["runs"]) == 7
    first = stored["runs"][0]
    assert first["values"] == [0.98, 0.99] and first["updates_to_target"] == 20 and first["name"] == "baseline"
    assert stored["runs"][3]["values"] == [None, None] and stored["runs"][3]["status"] == ["running", "running"]
    assert stored["runs"][6]["config"]["batch_size"] == 1024
    assert str(tmp_path) not in path.read_text()

    report.write_table(str(tmp_path / "results.md"))
    text = (tmp_path / "results.md").read_text()
    assert text.startswith("Digits\n\n| method") and "running at 25%" in text and "not started" in text
    assert "98.50% ± 0.71%" in text and "steps to 90%" in text

    written = report.write_plots(str(tmp_path / "plot"))
    assert list(written) == ["batch", "curves", "updates"]
    for path in written.values():
        with open(path, "rb") as file:
            assert file.read(4) == b"\x89PNG"
