"""Workers that wait for each other, in threads and processes of loopback."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from tfbigbatch.cluster import tf_config
from tfbigbatch.cluster.local import free_addresses


def config(addresses, index):
    return json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}})


def port_of(address):
    return int(address.rpartition(":")[2])


def test_all_leave_once_all_have_come():
    addresses, left = free_addresses(3), []

    def worker(index):
        tf_config.wait_for_all(config(addresses, index))
        left.append(index)
        # TensorFlow listens there now, for those that did not see this worker yet.
        with socket.create_server(("127.0.0.1", port_of(addresses[index]))):
            until = time.monotonic() + 20
            while len(left) < 3 and time.monotonic() < until:
                time.sleep(0.05)

    threads = [threading.Thread(target=worker, args=(index,), daemon=True) for index in range(3)]
    for thread in threads[:2]:
        thread.start()
    time.sleep(0.5)
    assert not left
    threads[2].start()
    for thread in threads:
        thread.join(20)
    assert sorted(left) == [0, 1, 2]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_signal_ends_a_worker_that_waits(number):
    addresses = free_addresses(2)
    code = (
        "import sys; from tfbigbatch.cluster import tf_config; from tfbigbatch.errors import Preempted\n"
        "tf_config._SILENCE = 0.0\n"
        f"try: tf_config.wait_for_all({config(addresses, 0)!r})\n"
        "except Preempted as stopped: print(stopped); sys.exit(stopped.exit_code)"
    )
    worker = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    )
    assert worker.stderr.readline() == f"worker 0 waits for {addresses[1]}\n"
    worker.send_signal(number)
    out, err = worker.communicate(timeout=10)
    assert worker.returncode == 42 and "stopped on request while waiting for the other workers" in out, err
