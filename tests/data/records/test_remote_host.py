"""A pipeline on another host, which calls no Python: a second process on loopback."""

import os
import subprocess
import sys

import pytest

from tfbigbatch.cluster.local import free_addresses

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
SERVER = """
import sys
import tensorflow as tf
tf.distribute.Server({"worker": [sys.argv[1]]}, job_name="worker", task_index=0).join()
"""
CLIENT = """
import sys
import types
import numpy as np
import tensorflow as tf
from tfbigbatch.data.records import skip_bad

split = types.SimpleNamespace(
    name="training", files=("a.tfrecord",), counts=np.array([8]), offsets=np.arange(8) * 100, examples=8
)
bad = skip_bad.BadRecords(split, max_fraction=0.25)

def pipeline():
    report = bad.reporter()
    def record(number):
        tf.cond(number % 3 == 0, lambda: (report(number[tf.newaxis]), True)[1], lambda: False)
        return number
    return tf.data.Dataset.range(8).map(record)

tf.config.experimental_connect_to_host(sys.argv[1])
with tf.device("/job:worker/task:0/device:CPU:0"):
    found = [int(each) for each in pipeline()]
    assert found == list(range(8)), found

    def read(number):
        skip_bad.check_is_local("pairs")
        return number

    # Also in a function of a dataset, whose tensors have no device yet.
    for check in (lambda: read(0), lambda: tf.data.Dataset.range(8).map(read)):
        try:
            check()
        except ValueError as error:
            assert "job:worker" in str(error)
        else:
            raise AssertionError("not refused")
skip_bad.check_is_local("pairs")
assert bad.count == 0
"""


@pytest.mark.slow  # Two processes that start TensorFlow.
def test_bad_records_of_another_host_end_no_run():
    (address,) = free_addresses(1)
    environment = {**os.environ, "PYTHONPATH": ROOT}
    server = subprocess.Popen([sys.executable, "-c", SERVER, address], env=environment, stderr=subprocess.DEVNULL)
    try:
        done = subprocess.run(
            [sys.executable, "-c", CLIENT, address], env=environment, capture_output=True, text=True, timeout=100
        )
    finally:
        server.kill()
        server.wait()
    assert done.returncode == 0, done.stderr[-3000:]
