"""The timings of a start, and TensorFlow's import."""

import subprocess
import sys
import time

import pytest

from tfbigbatch.utils.startup import StartTimings

IMPORT = """
import gc
from tfbigbatch.utils import startup
startup.import_tensorflow()
import tensorflow as tf, keras
print(gc.isenabled(), tf.keras.__version__ == keras.__version__)
"""


def test_tensorflow_is_imported_and_the_collector_is_on_afterwards():
    out = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["True", "True"]


def test_the_parts_of_a_start_sum_up_to_its_length():
    timings = StartTimings(age=2.0)
    started = time.perf_counter()
    timings.mark("config")
    for part in ("tensorflow", "model", "input", "model"):
        time.sleep(0.01)
        timings.mark(part)
    assert not timings.is_complete
    timings.traces = 2
    timings.mark("first_step")
    assert timings.is_complete and timings.seconds["config"] >= 2.0 and timings.seconds["model"] > 0.018
    content = timings.content()
    assert list(content) == ["config", "tensorflow", "model", "input", "first_step", "total", "traces"]
    assert content["total"] == pytest.approx(2.0 + time.perf_counter() - started, abs=0.05)
