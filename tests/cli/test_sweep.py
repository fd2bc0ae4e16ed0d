"""Sweeps, comparisons and tuning grids by their command."""

import json
import shutil
import signal
import subprocess
import sys
import time

import pytest
from absl import flags

from tests.helpers.preloaded import ROOT, tfbigbatch
from tfbigbatch.cli import sweep
from tfbigbatch.run_directory.metrics_log import read_rows
from tfbigbatch.utils import command

TINY = """
from tfbigbatch.config import new_config


def get_config():
    config = new_config("digits_lstm")
    config.model.hidden_units = 4
    config.batch_size = {batch_size}
    config.duration = "12 steps"
    config.evaluate_every = "4 steps"
    config.checkpoint_every = "6 steps"
    return config
"""


@pytest.fixture
def grid():
    """A function of the arguments of `sweep` that gives the rows of --config and --grid."""
    before = set(flags.FLAGS)
    sweep.define_flags()

    def rows(*arguments):
        flags.FLAGS.unparse_flags()
        flags.FLAGS["grid.FIELD"].unparse()
        flags.FLAGS["config.FIELD"].unparse()
        command.parse(["sweep", "--model_dir=x", *arguments])
        return {row.name: row for row in sweep.grid(flags.FLAGS).entries}

    yield rows
    flags.FLAGS.unparse_flags()
    flags.FLAGS.remove_flag_values([name for name in flags.FLAGS if name not in before])


SMALL = "--config=digits/lstm_small_batch"


def test_any_fields_are_swept_and_name_their_runs(grid):
    found = grid(
        SMALL,
        "--grid.optimizer.weight_decay=0.01,0.1",
        "--grid.schedule.boundaries='1 epochs','2 epochs';('3 epochs',)",
        "--config.optimizer.name=adamw",
        "--config.duration=5 epochs",
        "--seeds=0,1",
    )
    boundaries = ["'1 epochs','2 epochs'", "('3 epochs',)"]
    names = [f"optimizer.weight_decay={a} schedule.boundaries={b}" for a in ("0.01", "0.1") for b in boundaries]
    assert list(found) == names and {row.config.duration for row in found.values()} == {"5 epochs"}
    last = found[names[-1]]
    assert (last.config.optimizer.weight_decay, last.config.schedule.boundaries) == (0.1, ("3 epochs",))
    assert last.config.optimizer.name == "adamw" and last.seeds == (0, 1)
    assert list(grid(f"{SMALL},digits/lstm_legw")) == ["lstm_small_batch", "lstm_legw"]


@pytest.mark.parametrize(
    "sweep, said",
    [
        (["--grid.batch_size=8,,9"], "expected --grid.FIELD=VALUE,VALUE"),
        (["--grid.batchsize=8"], "--grid.batchsize=8: .*Did you mean 'batch_size'"),
        (["--grid.seed=0,1"], "for seeds --seeds=0,1"),
        (["--grid.batch_size=8", "--grid.batch_size=9"], "once for each field"),
    ],
)
def test_a_bad_sweep_is_refused(grid, sweep, said):
    with pytest.raises(ValueError, match=said):
        grid(SMALL, *sweep)


@pytest.mark.slow
def test_experiments_are_compared_over_a_grid_and_not_run_again(tmp_path):
    for batch_size in (32, 64):
        (tmp_path / f"batch_{batch_size}.py").write_text(TINY.format(batch_size=batch_size))
    arguments = [
        f"--config={tmp_path}/batch_32.py,{tmp_path}/batch_64.py",
        f"--model_dir={tmp_path}/runs",
        f"--results={tmp_path}/results",
        f"--results_cache={tmp_path}/cache.jsonl.gz",
        "--grid.schedule.learning_rate=0.01,0.5",
        "--config.model.hidden_units=3",
    ]
    first = tfbigbatch("sweep", *arguments)
    assert first.returncode == 0, first.stderr
    assert "[4/4] batch_64 schedule.learning_rate=0.5 at 64, seed 0: test accuracy" in first.stdout
    runs = json.loads((tmp_path / "results.json").read_text())["runs"]
    assert [run["config"]["schedule"]["learning_rate"] for run in runs] == [0.01, 0.5, 0.01, 0.5]
    assert runs[0]["config"]["model"]["hidden_units"] == 3
    assert (tmp_path / "results_curves.png").exists() and "| batch_32 sch" in (tmp_path / "results.md").read_text()

    shutil.rmtree(tmp_path / "runs")
    again = tfbigbatch("sweep", *arguments)
    assert again.returncode == 0 and again.stdout.count("nothing to do") == 4
    assert json.loads((tmp_path / "results.json").read_text())["runs"] == runs


SWEEP = """
from tfbigbatch import sweeps
from tfbigbatch.config import new_config


def get_sweep():
    table = sweeps.Sweep("Digits", baseline="small", target=0.99)
    config = new_config("digits_lstm")
    config.model.hidden_units = 4
    config.duration = "1000 steps"
    config.evaluate_every = config.checkpoint_every = "100 steps"
    table.add("small", config)
    config.batch_size = 64
    table.add("large", config)
    return table
"""


@pytest.mark.slow
def test_a_sweep_in_two_processes_is_stopped_and_goes_on(tmp_path):
    (tmp_path / "sweep.py").write_text(SWEEP)
    arguments = [f"--sweep={tmp_path}/sweep.py", f"--model_dir={tmp_path}/runs"]
    command = [sys.executable, "-m", "tfbigbatch", "sweep", *arguments, "--processes=2"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    logs = [tmp_path / "runs" / name / "seed-0" / "metrics.jsonl" for name in ("small/batch-32", "large/batch-64")]
    while not all(any(row["step"] >= 100 for row in read_rows(log)) for log in logs):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 42, err
    assert (
        out.count("stopped; it resumes from its checkpoint") == 2
        and "| stopped at" in out
        and "same command resumes" in out
    )
    assert "0 of 1" in (tmp_path / "runs" / "report.md").read_text()

    again = tfbigbatch("sweep", *arguments, "--processes=2")
    assert again.returncode == 0, again.stderr
    assert "[2/2]" in again.stdout and "stopped" not in again.stdout
    assert f"{tmp_path}/runs/report_batch.png" in again.stdout
    assert "resume     from the checkpoint of step" in (tmp_path / "runs/small/batch-32/seed-0.log").read_text()
    results = json.loads((tmp_path / "runs" / "report.json").read_text())
    assert [run["status"] for run in results["runs"]] == [["done"], ["done"]]

    report = tfbigbatch("report", *arguments, f"--results={tmp_path}/new/folder")
    assert report.returncode == 0, report.stderr
    assert json.loads((tmp_path / "new" / "folder.json").read_text()) == results
