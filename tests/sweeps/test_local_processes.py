"""Calls in processes of their own; test_series.py has series of them."""

import os
import subprocess
import sys
import time

import pytest

from tests.helpers.fake_run import fake_run
from tfbigbatch.config import new_config
from tfbigbatch.run_directory.directory import RunDirectory
from tfbigbatch.sweeps.local_processes import LocalProcesses

# Runs one call that waits, until it is killed.
PARENT = """
import sys
from tests.sweeps.test_local_processes import submit
from tfbigbatch.sweeps.local_processes import LocalProcesses

submit(LocalProcesses(2), sys.argv[1]).result()
"""


def submit(executor, directory):
    return executor.submit(fake_run, new_config("digits_lstm"), model_dir=directory, data_dir='{"0": "wait"}')


def wait_until(condition):
    for _ in range(300):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it did not come about")


def test_the_run_of_a_killed_parent_saves_and_ends(tmp_path):
    directory = str(tmp_path / "run")
    command = [sys.executable, "-c", PARENT, directory]
    parent = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.getcwd()})
    try:
        wait_until(lambda: RunDirectory(directory).status() or parent.poll() is not None)
    finally:
        parent.kill()
        parent.wait()
    assert running(directory)
    # It would sleep for a minute.
    wait_until(lambda: not running(directory))


def running(directory):
    """True while a process has the log of a run open."""
    log = os.path.realpath(f"{directory}.log")
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/fd/1") == log:
                return True
        except OSError:
            continue
    return False


def test_a_log_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with LocalProcesses(1) as executor, pytest.raises(ValueError, match="file/run.log cannot be written"):
        submit(executor, str(tmp_path / "file" / "run")).result()
