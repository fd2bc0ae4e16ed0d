import errno
import fcntl
import os
import signal
import subprocess
import sys

import pytest

from tfbigbatch.utils import folder_lock
from tfbigbatch.utils.folder_lock import NAME, FolderLock, locked

# Holds the lock and forks; the child outlives it until its stdin ends.
HOLDER = """
import os, sys
from tfbigbatch.utils.folder_lock import FolderLock
lock = FolderLock(sys.argv[1])
lock.acquire(str)
if os.fork() == 0:
    print("child", flush=True)
    sys.stdin.read()
    lock.release()
    os._exit(0)
os.wait()
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(folder_lock, "PATIENCE", 0.0)


def refused(holder):
    return f"held by {holder}"


def test_a_second_writer_is_told_who_the_first_is(tmp_path):
    with locked(str(tmp_path), refused):
        with pytest.raises(ValueError, match=rf"held by process {os.getpid()} on \S+, since 20"):
            FolderLock(str(tmp_path)).acquire(refused)
    with locked(str(tmp_path), refused):
        pass
    assert not list(tmp_path.iterdir())


def test_a_forked_child_of_a_killed_holder_does_not_keep_the_lock(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_lock, "PATIENCE", 10.0)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], **pipes)
    assert holder.stdout.readline() == "child\n"
    lock = FolderLock(str(tmp_path))
    monkeypatch.setattr(folder_lock, "PATIENCE", 0.0)
    with pytest.raises(ValueError, match=f"held by process {holder.pid} on"):
        lock.acquire(refused)
    monkeypatch.setattr(folder_lock, "PATIENCE", 10.0)
    holder.send_signal(signal.SIGKILL)
    lock.acquire(refused)
    # The child ends now, and has nothing to give back.
    holder.stdin.close()
    holder.stdout.read()
    holder.wait()
    with pytest.raises(ValueError, match=f"held by process {os.getpid()}"):
        monkeypatch.setattr(folder_lock, "PATIENCE", 0.0)
        FolderLock(str(tmp_path)).acquire(refused)
    lock.release()


def test_folders_that_were_made_go_where_nothing_was_written(tmp_path):
    with locked(str(tmp_path / "runs" / "one"), refused):
        pass
    assert not (tmp_path / "runs").exists()
    with locked(str(tmp_path / "runs" / "two"), refused):
        (tmp_path / "runs" / "two" / "config.json").write_text("{}")
    assert [path.name for path in (tmp_path / "runs" / "two").iterdir()] == ["config.json"]


def test_a_file_system_without_locks_is_warned_of(tmp_path, monkeypatch):
    def fails(descriptor, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", fails)
    with pytest.warns(UserWarning, match="without locks .No locks available.: nothing keeps a second process"):
        with locked(str(tmp_path), refused):
            pass


def test_what_a_folder_from_elsewhere_has_in_its_place_is_left_alone(tmp_path):
    (tmp_path / "other").write_text("mine")
    (tmp_path / NAME).symlink_to(tmp_path / "other")
    with pytest.raises(ValueError, match="cannot be written: Too many levels of symbolic links"):
        FolderLock(str(tmp_path)).acquire(refused)
    (tmp_path / NAME).unlink()
    os.mkfifo(tmp_path / NAME)
    with pytest.raises(ValueError, match="cannot be written: it is a folder, a pipe or a device"):
        FolderLock(str(tmp_path)).acquire(refused)
    assert (tmp_path / "other").read_text() == "mine"
