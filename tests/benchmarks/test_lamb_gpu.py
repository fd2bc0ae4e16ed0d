"""The LAMB update as StableHLO: written where TensorFlow is, timed where it is not."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
JAX = all(importlib.util.find_spec(package) for package in ("jax", "optax"))


def bench(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "benchmarks/lamb_gpu.py", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "JAX_PLATFORMS": "cpu", **environment},
    )


@pytest.mark.skipif(not JAX, reason="needs jax and optax")
@pytest.mark.slow
def test_the_exported_update_runs_in_place_and_agrees_with_optax(tmp_path):
    exported = bench("export", f"--out={tmp_path}/lamb", "--model=tiny")
    assert exported.returncode == 0, exported.stderr
    manifest = json.loads((tmp_path / "lamb" / "lamb.json").read_text())
    assert manifest["model"] == "tiny" and manifest["parameters"] == 408 and len(manifest["variables"]) == 7

    # A machine without the two.
    absent = tmp_path / "absent"
    absent.mkdir()
    for package in ("tensorflow", "tfbigbatch"):
        (absent / f"{package}.py").write_text("raise ImportError(__name__)")
    results = tmp_path / "results.json"
    arguments = f"--dir={tmp_path}/lamb", "--repeats=2", "--updates=2", f"--results={results}"
    timed = bench("run", *arguments, PYTHONPATH=str(absent))
    assert timed.returncode == 0, timed.stderr
    assert "ours/floor" in timed.stdout and "optax/ours" in timed.stdout
    report = json.loads(results.read_text())
    assert report["platform"] == "cpu" and report["difference"] < 1e-5
    assert {name: len(samples) for name, samples in report["samples_ms"].items()} == {
        "tfbigbatch": 2,
        "optax": 2,
        "copy": 2,
    }
    # Weights and both slots.
    assert report["compiled"]["tfbigbatch"]["in_place_bytes"] >= 12 * manifest["parameters"]


def test_an_unknown_model_is_one_message(tmp_path):
    outcome = bench("export", f"--out={tmp_path}", "--model=resnet5")
    assert outcome.returncode == 1 and "Did you mean 'resnet50'?" in outcome.stderr
    assert "Traceback" not in outcome.stderr and not list(tmp_path.iterdir())


def test_a_folder_without_the_module_names_the_command_that_writes_it(tmp_path):
    outcome = bench("run", f"--dir={tmp_path}")
    assert outcome.returncode == 1 and outcome.stderr.startswith("error:")
    assert f"export --out={tmp_path}" in outcome.stderr
