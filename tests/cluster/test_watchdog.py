import threading
import time

import pytest
import tensorflow as tf

from tfbigbatch.cluster.watchdog import Watchdog, worker_loss
from tfbigbatch.errors import WorkerLost


class Ends:
    """Takes the exit code in place of the process's end."""

    def __init__(self):
        self.codes, self.event = [], threading.Event()

    def __call__(self, code):
        self.codes.append(code)
        self.event.set()


def test_without_a_heartbeat_the_process_ends(capsys):
    ends = Ends()
    with Watchdog(0.2, ends) as watchdog:
        watchdog.heartbeat("step 7")
        assert ends.event.wait(10)
    assert ends.codes == [75]
    assert "no progress for 0.2 seconds after step 7" in capsys.readouterr().err


def test_a_run_with_heartbeats_or_an_ended_one_is_left_alone():
    ends = Ends()
    with Watchdog(1.0, ends) as watchdog:
        for step in range(12):
            watchdog.heartbeat(f"step {step}")
            time.sleep(0.1)
    time.sleep(1.2)
    with Watchdog(0, ends):
        time.sleep(0.1)
    assert ends.codes == []


def test_in_a_cluster_a_broken_connection_is_a_lost_worker(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{}")
    with pytest.raises(WorkerLost, match="UnavailableError: Connection reset.*Start all workers again"):
        with worker_loss():
            raise tf.errors.UnavailableError(None, None, "Connection reset\nmore")
    with pytest.raises(tf.errors.ResourceExhaustedError), worker_loss():
        raise tf.errors.ResourceExhaustedError(None, None, "no memory")


def test_in_one_process_errors_pass(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(tf.errors.UnavailableError), worker_loss():
        raise tf.errors.UnavailableError(None, None, "a file system")
