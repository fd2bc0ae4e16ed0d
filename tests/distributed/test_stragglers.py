"""Two real workers, one of them slowed: the run names it."""

import json
import os
import signal
import threading
import time

import pytest

from tests.distributed.test_multi_worker import FLAGS
from tests.test_command_line import command, finish
from tfbigbatch.cluster.local import free_addresses
from tfbigbatch.runs.metrics_log import read_rows

LONG = ["--config.duration=600 steps", "--config.evaluate_every=600 steps", "--config.checkpoint_every=600 steps"]
SLOWED = """
import json, os, time
import tf_keras
from tfbigbatch.experiment import load

INDEX = json.loads(os.environ["TF_CONFIG"])["task"]["index"]

class Sleep(tf_keras.callbacks.Callback):
    every_worker = True

    def on_train_batch_begin(self, batch, logs=None):
        time.sleep(0.05 * INDEX)

def get_config():
    return load("experiments/digits/lstm_lamb.py")

def get_callbacks():
    return [Sleep()]
"""


def start(model_dir, *flags):
    addresses = free_addresses(2)
    return [
        command(
            *FLAGS,
            *LONG,
            "--config.log_every=20 steps",
            f"--model_dir={model_dir}",
            *flags,
            TF_CONFIG=json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}),
        )
        for index in range(2)
    ]


def found(model_dir, outcomes):
    """(output of the chief, means of the fractions waited by worker, status)"""
    assert [code for code, _, _ in outcomes] == [0, 0], outcomes
    rows = [row for row in read_rows(model_dir / "metrics.jsonl") if "waited/worker_0" in row]
    means = [sum(row[f"waited/worker_{index}"] for row in rows) / len(rows) for index in range(2)]
    return outcomes[0][1], means, json.loads((model_dir / "status.json").read_text())


@pytest.mark.slow
def test_a_worker_that_is_late_at_each_step_is_named(tmp_path):
    (tmp_path / "slowed.py").write_text(SLOWED)
    model_dir = tmp_path / "run"
    processes = start(model_dir, f"--config={tmp_path}/slowed.py", "--config.duration=100 steps")
    out, means, status = found(model_dir, [finish(process) for process in processes])
    assert "slowest    worker 1 (" in out and means[0] > 0.3 and means[1] < 0.1, (out, means)
    assert status["slowest_worker"]["worker"] == 1 and status["slowest_worker"]["others_waited"] > 0.3


@pytest.mark.slow
def test_a_worker_that_gets_a_third_of_its_processor_is_named(tmp_path):
    processes = start(tmp_path / "run")
    ended = threading.Event()

    def slow(process):
        while not (tmp_path / "run" / "metrics.jsonl").exists() and not ended.wait(0.1):
            pass
        while not ended.is_set():
            for sent, seconds in ((signal.SIGSTOP, 0.04), (signal.SIGCONT, 0.02)):
                if process.poll() is None:
                    os.kill(process.pid, sent)
                time.sleep(seconds)

    thread = threading.Thread(target=slow, args=(processes[0],))
    thread.start()
    try:
        outcomes = [finish(process) for process in reversed(processes)][::-1]
    finally:
        ended.set()
        thread.join()
        for process in processes:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGCONT)
    _, means, _ = found(tmp_path / "run", outcomes)
    assert means[1] > means[0], means
