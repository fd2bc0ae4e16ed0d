"""Tasks in a pool, and jobs in processes of their own; tests/studies/test_series.py has series of them."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.helpers import state_job
from tests.helpers.datasets import image_sets
from tests.helpers.fake_run import fake_run
from tfbigbatch import experiment
from tfbigbatch.utils import processes
from tfbigbatch.utils.processes import Job, cores, progress_bar, run_jobs, run_tasks

# Runs one job that waits, until it is killed.
PARENT = """
import sys
from tests.utils.test_processes import job
from tfbigbatch.utils.processes import run_jobs

fork = sys.argv[2] == "fork"
run_jobs([job(sys.argv[1] + name) for name in ("", "2")[: 1 + fork]], 2, print, fork=fork)
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


@pytest.mark.parametrize("how", ["new", pytest.param("fork", marks=pytest.mark.slow)])
def test_the_run_of_a_killed_parent_saves_and_ends(tmp_path, how):
    directory = str(tmp_path / "run")
    command = [sys.executable, "-c", PARENT, directory, how]
    parent = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.getcwd()})
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


def ended_jobs(tmp_path, ends, **options):
    """Runs jobs in turn; returns what each found, and (exit code, text it logged) of each."""
    found, ended = str(tmp_path / "found"), {}
    jobs = [
        Job(name, state_job.job, {"path": found, "name": name, "then": then}, str(tmp_path / f"{name}.log"))
        for name, then in ends.items()
    ]
    run_jobs(jobs, 1, lambda job, code, logged: ended.update({job.name: (code, logged)}), **options)
    with open(found, encoding="utf-8") as file:
        return [json.loads(line) for line in file], ended


@pytest.mark.skipif(bool(processes.forking_refused()), reason="jobs are not forked here")
def test_forked_jobs_leave_each_other_nothing_and_end_as_new_processes_do(tmp_path, monkeypatch):
    monkeypatch.setenv("MADE_UP", "given")
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)
    found, ended = ended_jobs(tmp_path, {"a": "", "b": "kill", "c": "error", "d": ""}, fork=True)
    assert len(found) == 4 and len({each["parent"] for each in found}) == 1
    assert len({str(each.pop("random")) for each in found}) == 4
    assert all(each == found[0] for each in found)
    assert found[0]["parent"] != os.getpid() and found[0]["tensorflow"] and found[0]["session"]
    assert found[0]["seen"] == found[0]["arguments"] == [] and found[0]["folder"] == os.getcwd()
    assert found[0]["environment"] == {"MADE_UP": "given", "LEFT": None, "TF_NUM_INTRAOP_THREADS": str(cores())}
    assert {name: code for name, (code, _) in ended.items()} == {"a": 0, "b": -signal.SIGKILL, "c": 1, "d": 0}
    # TensorFlow looks for a GPU, and may say that there is none.
    said = [line for line in ended["a"][1].splitlines() if "cuda" not in line]
    assert said == ["said by a"] and "RuntimeError: the disk is on fire" in ended["c"][1]


def test_jobs_get_new_processes_where_they_cannot_fork(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "forking_refused", lambda: "a GPU is visible")
    found, ended = ended_jobs(tmp_path, {"a": "", "b": ""}, fork=True)
    assert {each["parent"] for each in found} == {os.getpid()} and not found[0]["tensorflow"]
    assert {code for code, _ in ended.values()} == {0}


@pytest.mark.parametrize("pattern, reason", [("/dev/nvidia[0-9]*", "a GPU"), ("/dev/accel[0-9]*", "a TPU"), ("", "")])
def test_accelerators_are_not_forked(monkeypatch, pattern, reason):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(processes.sys, "platform", "linux")
    monkeypatch.setattr(processes.glob, "glob", lambda asked: [asked] if asked == pattern else [])
    assert processes.forking_refused().startswith(reason) and bool(processes.forking_refused()) == bool(reason)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert ("GPU" in processes.forking_refused()) is False
    monkeypatch.setattr(processes.sys, "platform", "darwin")
    assert processes.forking_refused() == "darwin does not fork safely"


@pytest.mark.slow
def test_a_lost_server_is_replaced_by_new_processes(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "forking_refused", lambda: "")
    found, ended = ended_jobs(tmp_path, {"a": "", "b": ""}, fork=True, preload=["tfbigbatch.no_such_module"])
    assert {each["parent"] for each in found} == {os.getpid()} and {code for code, _ in ended.values()} == {0}
