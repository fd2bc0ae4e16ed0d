import os

from tests.helpers import made_runs
from tfbigbatch.reports.collect import Row, Run
from tfbigbatch.runs.metric import Metric
from tfbigbatch.runs.metrics_log import Scalars
from tfbigbatch.runs.run_states import run_states

NOW = 1_000_000.0


def line(tmp_path, **options):
    """The line of one run."""
    made_runs.write(tmp_path, {}, **options)
    for name in ("status.json", "metrics.jsonl"):
        os.utime(tmp_path / name, (NOW - 300, NOW - 300))
    status = {"status": options["status"], "step": options.get("step", 20), "total_steps": 20, "seconds": 3.0}
    status |= {"reason": options["reason"]} if "reason" in options else {}
    row = Row("LEGW", {"batch_size": 2048}, [Run(str(tmp_path), 7, {}, {}, status)])
    head, found = run_states([row], lambda run: Scalars(run.directory), Metric("accuracy"), NOW)
    return dict(zip(head, found, strict=True))


def test_a_run_that_has_ended(tmp_path):
    found = line(tmp_path, status="done", curve={10: 0.5, 20: 0.75})
    assert found == {
        "run": "LEGW",
        "batch": "2,048",
        "seed": "7",
        "status": "ended",
        "steps": "20 of 20 (100%)",
        "last test accuracy": "75.00% at 20",
        "seconds": "3.0",
    }


def test_one_that_is_going_is_as_far_as_its_rows(tmp_path):
    found = line(tmp_path, status="running", step=0, train={5: {"loss": 1.0}})
    assert found["status"] == "running, wrote 5 minutes ago" and found["steps"] == "5 of 20 (25%)"
    assert found["last test accuracy"] == "none yet" and found["seconds"] == ""


def test_why_one_diverged_and_that_a_preempted_one_goes_on(tmp_path):
    assert line(tmp_path, status="diverged", step=9, reason="loss became nan")["status"] == "diverged: loss became nan"
    assert line(tmp_path, status="preempted", step=5)["status"].startswith("preempted; the same command")
