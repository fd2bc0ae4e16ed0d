"""Injected failures, on processes that only count or write."""

import os
import random
import signal
import socket
import sys
import threading
import time

import pytest

from tfbigbatch.cluster import faults
from tfbigbatch.cluster.faults import Proxy, Workers, flip_newest, inject, kinds_for

COUNTS = "import time\nwhile True: time.sleep(0.01)"
WRITES = """
import sys, time
while True:
    with open(sys.argv[1], "a") as file:
        file.write("x" * 4096)
    time.sleep(0.01)
"""


@pytest.fixture
def started(tmp_path):
    made = []

    def start(program, count=1, *arguments):
        made.append(Workers([sys.executable, "-c", program, *arguments], count, str(tmp_path)))
        return made[-1]

    yield start
    for each in made:
        each.close()


def echo(listening):
    connection, _ = listening.accept()
    while content := connection.recv(100):
        connection.sendall(content)


def test_a_proxy_holds_back_what_is_sent_while_it_is_cut():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=echo, args=(listening,), daemon=True).start()
        proxy = Proxy(listening.getsockname()[1])
        with socket.create_connection(("127.0.0.1", proxy.port)) as here:
            here.settimeout(0.3)
            here.sendall(b"one")
            assert here.recv(100) == b"one"
            with proxy.cut():
                here.sendall(b"two")
                with pytest.raises(TimeoutError):
                    here.recv(100)
            here.settimeout(5.0)
            assert here.recv(100) == b"two"
        proxy.close()


@pytest.mark.parametrize("kind, code", [("kill", -signal.SIGKILL), ("terminate", -signal.SIGTERM)])
def test_a_process_ends_and_the_others_after_it(started, monkeypatch, kind, code):
    monkeypatch.setattr(faults, "_LOSS_GRACE", 0.2)
    workers = started(COUNTS, 2)
    assert workers.outcome(lambda: True) is None
    assert inject(kind, workers, "", random.Random(0))
    assert workers.outcome(lambda: False) in (code, -signal.SIGKILL) and not workers.running()


@pytest.mark.parametrize("kind", ["freeze", "slow_worker"])
def test_a_process_goes_on_after_it_was_stopped(started, monkeypatch, kind):
    monkeypatch.setattr(faults, "_SLOW_SECONDS", 0.3)
    workers = started(COUNTS)
    seen, stopped = [], threading.Event()

    def watch():
        while not stopped.wait(0.01):
            with open(f"/proc/{workers.processes[0].pid}/stat", encoding="utf-8") as file:
                seen.append(file.read().rpartition(")")[2].split()[0])

    watcher = threading.Thread(target=watch)
    watcher.start()
    choices = random.Random(0)
    monkeypatch.setattr(choices, "uniform", lambda low, high: 0.3)
    assert inject(kind, workers, "", choices)
    stopped.set()
    watcher.join()
    assert "T" in seen and workers.running()


def test_a_full_disk_is_an_error_of_the_next_write(started, tmp_path):
    workers = started(WRITES, 1, str(tmp_path / "written"))
    while not (tmp_path / "written").exists():
        time.sleep(0.01)
    assert inject("disk_full", workers, "", random.Random(0))
    assert workers.outcome(lambda: False) == 1
    time.sleep(0.1)
    assert "File too large" in (tmp_path / "output.txt").read_text()


def test_a_slow_disk_delays_checkpoints_and_fsyncs(tmp_path, monkeypatch):
    import tensorflow as tf

    monkeypatch.setattr(tf.train.CheckpointManager, "save", lambda self: "saved")
    monkeypatch.setattr(os, "fsync", lambda file: None)
    slept = []
    monkeypatch.setattr(faults.time, "sleep", slept.append)
    faults.slow_disk(str(tmp_path / "switch"))
    assert tf.train.CheckpointManager.save(None) == "saved" and not slept
    (tmp_path / "switch").write_text("3.0")
    assert tf.train.CheckpointManager.save(None) == "saved" and slept == [3.0]
    os.fsync(0)
    assert slept == [3.0, 3.0]


def test_the_newest_of_several_checkpoints_is_damaged(tmp_path):
    for step in (9, 10):
        (tmp_path / f"step-{step}.data-00000-of-00001").write_bytes(bytes(100))
        (tmp_path / f"step-{step}.index").write_bytes(b"")
        assert flip_newest(str(tmp_path)) == (step == 10)
    assert (tmp_path / "step-9.data-00000-of-00001").read_bytes() == bytes(100)
    assert sum((tmp_path / "step-10.data-00000-of-00001").read_bytes()) == 4


def test_a_process_alone_has_no_network_to_lose(started):
    assert set(kinds_for(2)) - set(kinds_for(1)) == {"lost_network"}
    with pytest.raises(ValueError, match="failure 'fire' is unknown; expected one of kill, freeze"):
        inject("fire", started(COUNTS), "", random.Random(0))
