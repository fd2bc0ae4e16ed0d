"""The programs of examples/ run, where what they need is installed."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest

from tests.helpers.preloaded import ROOT


def _run(name, backend):
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    command = [sys.executable, "-W", "ignore", os.path.join("examples", name)]
    outcome = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=500)
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    return outcome.stdout


def _example(name, backend, *packages, marks=(pytest.mark.slow,)):
    missing = [each for each in (backend, *packages) if importlib.util.find_spec(each) is None]
    skip = pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")
    return pytest.param(name, backend, id=f"{name}-{backend}", marks=[skip, *marks])


@pytest.mark.parametrize(
    "name, backend",
    [
        _example("tfds_digits.py", "tensorflow", "tensorflow_datasets", "sklearn", marks=()),
        _example("tfds_digits.py", "jax", "tensorflow_datasets", "sklearn"),
        _example("tfds_digits.py", "torch", "tensorflow_datasets", "sklearn"),
        _example("keras_hub_classifier.py", "tensorflow", "keras_hub"),
        _example("keras_hub_classifier.py", "jax", "keras_hub"),
        _example("keras_hub_classifier.py", "torch", "keras_hub"),
        _example("hugging_face_classifier.py", "torch", "transformers", "datasets"),
    ],
)
def test_the_loss_falls_and_held_out_examples_are_told(name, backend):
    first, last, accuracy = re.search(r"loss ([\d.]+) to ([\d.]+), ([\d.]+)% of", _run(name, backend)).groups()
    assert float(last) < 0.5 * float(first) and float(accuracy) > 90.0


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("sklearn") is None, reason="scikit-learn is not installed")
def test_the_three_backends_end_alike():
    table = re.findall(r"^(\w+) +([\d.]+%|not installed)$", _run("three_backends.py", "tensorflow"), re.MULTILINE)
    assert [backend for backend, _ in table] == ["tensorflow", "jax", "torch"]
    for backend, accuracy in table:
        if importlib.util.find_spec(backend) is None:
            assert accuracy == "not installed"
        else:
            assert float(accuracy.rstrip("%")) > 90.0
