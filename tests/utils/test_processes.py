"""Tasks in a pool, and jobs in processes of their own; tests/studies/test_series.py has series of them."""

import fcntl
import os
import subprocess
import sys
import time

import pytest

from tests.helpers.datasets import image_sets
from tests.helpers.fake_run import fake_run
from tfbigbatch import experiment
from tfbigbatch.utils.processes import Job, progress_bar, run_jobs, run_tasks

# Runs one job that waits, until it is killed.
PARENT = """
import sys
from tests.utils.test_processes import job
from tfbigbatch.utils.processes import run_jobs

run_jobs([job(sys.argv[1])], 2, print)
"""


def run_three(function, processes):
    ended = []
    with progress_bar(3, 0, "task") as progress:
        run_tasks(
            function, [0, 1, 2], processes=processes, ended=lambda task, result: ended.append(task), progress=progress
        )


def test_a_worker_that_dies_is_reported():
    with pytest.raises(ValueError, match="A worker process died; perhaps memory ran out.*fewer --processes"):
        run_three(image_sets.dies, 2)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_task_that_fails_stops_the_others_and_its_message_arrives(processes):
    with pytest.raises(ValueError, match="task 0 cannot be done"):
        run_three(image_sets.fails, processes)


def job(directory):
    arguments = {"config": experiment.new("digits_lstm"), "model_dir": directory, "data_dir": '{"0": "wait"}'}
    return Job("waits", fake_run, arguments, f"{directory}.log")


def is_locked(path):
    with open(path, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def wait_until(condition):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it did not come about")


def test_the_run_of_a_killed_parent_saves_and_ends(tmp_path):
    directory = str(tmp_path / "run")
    parent = subprocess.Popen([sys.executable, "-c", PARENT, directory], env={**os.environ, "PYTHONPATH": os.getcwd()})
    try:
        wait_until(lambda: os.path.exists(os.path.join(directory, "metrics.jsonl")) or parent.poll() is not None)
        assert is_locked(f"{directory}.log")
        with pytest.raises(ValueError, match="waits: another process works on this run"):
            run_jobs([job(directory)], 1, print)
    finally:
        parent.kill()
        parent.wait()
    wait_until(lambda: not is_locked(f"{directory}.log"))


def test_a_log_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="file/run.log cannot be written"):
        run_jobs([job(str(tmp_path / "file" / "run"))], 1, print)
