"""The timings of a start, and TensorFlow's import."""

import json
import subprocess
import sys
import time

import pytest

from tfbigbatch.utils.startup import StartTimings, process_age

IMPORT = """
import gc, json, sys
import numpy as np
from tfbigbatch.utils import startup
startup.import_tensorflow()
startup.import_tensorflow()
import tensorflow as tf
found = {"first": [name for name in ("keras", "jax") if name in sys.modules], "collects": gc.isenabled()}
import keras
found["keras"] = [tf.keras.__version__ == keras.__version__, tf.keras.optimizers.Adam is keras.optimizers.Adam]
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
found["loss"] = model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0).history["loss"][0] >= 0.0
print(json.dumps(found))
"""


def test_tensorflow_is_imported_without_keras_3_which_works_afterwards():
    out = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True).stdout
    found = json.loads(out.splitlines()[-1])
    assert found["first"] == [] and found["collects"]
    assert found["keras"] == [True, True] and found["loss"]


def test_the_parts_of_a_start_sum_up_to_its_length():
    timings = StartTimings(age=2.0, show=True)
    started = time.perf_counter()
    timings.mark("config")
    for part in ("tensorflow", "model", "input", "model"):
        time.sleep(0.01)
        timings.mark(part)
    assert not timings.is_complete
    timings.traces, timings.steps = 2, 1
    timings.mark("first_step")
    assert timings.is_complete and timings.seconds["config"] >= 2.0 and timings.seconds["model"] > 0.018
    content = timings.content()
    assert list(content) == ["config", "tensorflow", "model", "input", "first_step", "total", "traces"]
    assert content["total"] == pytest.approx(2.0 + time.perf_counter() - started, abs=0.05)
    lines = timings.lines()
    assert [line.split()[0] for line in lines] == ["start"] * 6 and len({len(line) for line in lines}) == 1
    assert "first step " in lines[-2] and lines[-1].split()[1:3] == ["in", "all"]
    timings.steps = 50
    assert "first 50 steps, one call" in timings.lines()[-2]


def test_the_age_of_a_process_counts_from_its_own_start():
    code = "import time; time.sleep(0.3); from tfbigbatch.utils.startup import process_age; print(process_age())"
    started = time.perf_counter()
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert 0.3 < float(out) <= time.perf_counter() - started + 0.02
    assert process_age() > 0.3


def test_a_system_without_proc_gives_the_age_since_the_import(monkeypatch):
    def fails(*arguments, **options):
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", fails)
    assert 0.0 < process_age() < 3600.0
