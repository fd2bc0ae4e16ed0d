"""Reports of run directories, by their command."""

from tests.helpers import made_runs
from tests.helpers.preloaded import tfbigbatch
from tfbigbatch.config import new_config


def test_report_writes_a_page_where_the_runs_are(tmp_path):
    for batch_size in (32, 64):
        config = {**new_config("digits_lstm").to_dict(), "batch_size": batch_size}
        made_runs.write(tmp_path / f"batch-{batch_size}", config, 0.9)
    outcome = tfbigbatch("report", f"{tmp_path}/batch-32", f"{tmp_path}/batch-64", "--target=0.9")
    assert outcome.returncode == 0, outcome.stderr
    assert f"written  {tmp_path}/report.html" in outcome.stdout and "steps to 90%" in outcome.stdout
    assert {"report.html", "report.md", "report.json", "report_updates.png"} <= {
        each.name for each in tmp_path.iterdir()
    }
