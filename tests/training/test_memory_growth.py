"""Memory of a training process over thousands of logged rows and hundreds of checkpoints."""

import os
import re
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROWS, BEGIN = 5000, 1000
PROGRAM = """
import ctypes, gc, sys
import tf_keras
from tfbigbatch import experiment, train

class Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
                "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]

libc = ctypes.CDLL("libc.so.6")
libc.mallinfo2.restype = Counts

class Report(tf_keras.callbacks.Callback):
    _supports_tf_logs = True
    rows = 0

    def on_train_batch_end(self, batch, logs=None):
        self.rows += 1
        if self.rows % 500 == 0:
            gc.collect()
            counts = libc.mallinfo2()
            print(f"held {self.rows} {counts.uordblks + counts.hblkhd}", flush=True)

config = experiment.new("digits_lstm")
config.model.hidden_units, config.batch_size = 8, 48
config.duration, config.log_every, config.checkpoint_every = sys.argv[2], "1 steps", "10 steps"
config.evaluate_every = "500 steps"
train.run(config, model_dir=sys.argv[1], callbacks=[Report()])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="glibc's counts of its heap")
def test_a_process_does_not_grow_with_its_rows_and_checkpoints(tmp_path):
    # Python's objects too are then counted by the heap, and pages that it keeps are not.
    environment = {**os.environ, "PYTHONMALLOC": "malloc", "PYTHONPATH": ROOT}
    arguments = [str(tmp_path), f"{ROWS + BEGIN} steps"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    held = {int(rows): int(size) for rows, size in re.findall(r"held (\d+) (\d+)", done.stdout)}
    assert done.returncode == 0 and len(held) == (ROWS + BEGIN) / 500, done.stderr[-2000:]
    slope = (held[BEGIN + ROWS] - held[BEGIN]) / ROWS
    # Python keeps a kilobyte of each file pattern, as TensorFlow looks for a checkpoint by, of at most 32,768.
    assert slope < 250, held
