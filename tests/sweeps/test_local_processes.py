"""Calls in processes of their own; test_series.py has series of them."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.helpers.fake_run import fake_run
from tests.helpers.told_trainer import processes, tell, told_trainer
from tfbigbatch.config import new_config
from tfbigbatch.errors import InputError, Preempted
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


def call(executor, directory, what=""):
    """A call of the made-up trainer of candidates; (its error, its process)."""
    tell(str(directory), what)
    error = executor.submit(
        told_trainer, new_config("digits_lstm"), model_dir=str(directory), stop_after=10
    ).exception()
    return error, processes(str(directory))[-1]


def test_a_process_makes_several_calls_each_with_its_own_log_until_one_fails(tmp_path):
    with LocalProcesses(1, reuses=True) as executor:
        made = [call(executor, tmp_path / name) for name in ("a", "b")]
        refused, of_refused = call(executor, tmp_path / "c", "refuse")
        crashed, of_crashed = call(executor, tmp_path / "d", "crash")
        killed, of_killed = call(executor, tmp_path / "e", "kill")
        made += [call(executor, tmp_path / name) for name in ("f", "g")]
    (error, first), (_, second), (_, third), (_, fourth) = made
    assert error is None and first == second == of_refused and third == fourth
    assert len({first, of_crashed, of_killed, third, os.getpid()}) == 5
    for name, process in {"a": first, "b": second, "c": of_refused, "f": third, "g": fourth}.items():
        assert (tmp_path / f"{name}.log").read_text().startswith(f"process {process}\n")
        assert len(processes(str(tmp_path / name))) == 1
    assert isinstance(refused, InputError) and "error: a batch of nothing" in str(refused)
    assert type(crashed) is RuntimeError and "the disk is on fire" in str(crashed)
    assert type(killed) is RuntimeError and "FAILED with exit code -9" in str(killed)


def test_without_reuse_each_call_has_a_process(tmp_path):
    with LocalProcesses(1) as executor:
        assert len({call(executor, tmp_path / name)[1] for name in ("a", "b")}) == 2


def test_a_process_that_died_between_two_calls_is_replaced(tmp_path):
    with LocalProcesses(1, reuses=True) as executor:
        _, first = call(executor, tmp_path / "a")
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: open(f"/proc/{first}/stat").read().split()[2] == "Z")
        error, second = call(executor, tmp_path / "b")
    assert error is None and first != second


def test_a_stop_saves_the_calls_ends_all_processes_and_begins_no_other(tmp_path):
    executor, config = LocalProcesses(2, reuses=True), new_config("digits_lstm")
    _, first = call(executor, tmp_path / "before")
    directories = [str(tmp_path / name) for name in ("a", "b", "c")]
    for each in directories:
        tell(each, "wait")
    futures = [executor.submit(told_trainer, config, model_dir=each, stop_after=10) for each in directories]
    wait_until(lambda: all(RunDirectory(each).status() for each in directories[:2]))
    executor.shutdown(cancel_futures=True)
    assert all(isinstance(each.exception(), Preempted) for each in futures[:2]) and futures[2].cancelled()
    assert [RunDirectory(each).status()["status"] for each in directories[:2]] == ["preempted"] * 2
    made = [process for each in directories[:2] for process in processes(each)]
    assert first in made and not any(os.path.exists(f"/proc/{process}") for process in made)


def test_a_call_that_cannot_be_pickled_leaves_no_process(tmp_path):
    with LocalProcesses(1, reuses=True) as executor:
        future = executor.submit(lambda model_dir: None, model_dir=str(tmp_path / "a"))
        assert "pickle" in str(future.exception()) and not executor._running
        assert call(executor, tmp_path / "b")[0] is None
