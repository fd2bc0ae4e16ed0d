import json

import pytest

from tfbigbatch.training import report, run_directory
from tfbigbatch.training.metrics_log import MetricsLog


class Config:
    batch_size = 512


@pytest.fixture
def rows(tmp_path):
    """Two runs at two seeds, and one that diverged."""
    made = []
    for name, values in (("small", (0.98, 0.96)), ("naive", (0.80, None))):
        directories, results = [], []
        for seed, value in enumerate(values):
            path = str(tmp_path / name / str(seed))
            directory = run_directory.RunDirectory(path)
            directory.open({"batch_size": 512}, [])
            log = MetricsLog(directory)
            for step in (10, 20):
                log.write("eval", step, {"accuracy": (value or 0.1) * step / 20})
            log.close()
            directories.append(path)
            results.append({"step": 20, "seconds": 3.0 + seed, "metrics": {} if value is None else {"accuracy": value}})
        made.append({"name": name, "config": Config, "directories": directories, "results": results})
    return made


def test_mean_and_spread(rows):
    small, naive = report.summarise(rows, "accuracy")
    assert small["mean"] == pytest.approx(0.97) and small["standard_deviation"] == pytest.approx(0.01414, rel=1e-3)
    assert small["steps"] == 20 and small["seconds"] == 3.5
    assert naive["mean"] is None and naive["values"] == [0.80, None]


def test_the_table_is_markdown_and_shows_divergence(rows):
    lines = report.table(report.summarise(rows, "accuracy"))
    assert len({len(line) for line in lines}) == 1
    assert "97.00% ± 1.41%" in lines[2] and "diverged" in lines[3]
    assert "mean ± s.d. of 2 seeds" in lines[0]


def test_results_and_plot_are_written(rows, tmp_path):
    summary = report.summarise(rows, "accuracy")
    report.write_results(str(tmp_path / "results.json"), rows, summary)
    stored = json.loads((tmp_path / "results.json").read_text())
    assert stored["runs"][0]["values"] == [0.98, 0.96] and stored["runs"][0]["config"] == {"batch_size": 512}
    assert str(tmp_path) not in (tmp_path / "results.json").read_text()
    report.plot(str(tmp_path / "plot.png"), rows, "accuracy", "title")
    assert (tmp_path / "plot.png").read_bytes()[:4] == b"\x89PNG"
