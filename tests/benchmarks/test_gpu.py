"""Updates and a training step as StableHLO: written where TensorFlow is, checked and timed where it is not."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
JAX = all(importlib.util.find_spec(package) for package in ("jax", "optax"))
MODELS = {"lamb": "tiny", "muon": "tiny", "step": "mnist/lstm_small_batch batch_size=4 model.hidden_units=8"}
needs_jax = pytest.mark.skipif(not JAX, reason="needs jax and optax")


def bench(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "benchmarks/gpu.py", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": ROOT, **environment},
    )


def without_tensorflow(folder):
    """The PYTHONPATH of a machine that has neither TensorFlow nor this package."""
    folder.mkdir()
    for package in ("tensorflow", "tfbigbatch"):
        (folder / f"{package}.py").write_text("raise ImportError(__name__)")
    return str(folder)


@needs_jax
@pytest.mark.slow
@pytest.mark.parametrize("program", MODELS)
def test_an_exported_program_runs_in_place_and_gives_what_is_expected(tmp_path, program):
    exported = bench("export", f"--out={tmp_path}/out", f"--program={program}", f"--model={MODELS[program]}")
    assert exported.returncode == 0, exported.stderr
    manifest = json.loads((tmp_path / "out" / f"{program}.json").read_text())
    assert manifest["parameters"] == (408 if program != "step" else 8_186)

    results = tmp_path / "results.json"
    arguments = f"--dir={tmp_path}/out", "--device=cpu", "--repeats=2", "--updates=2", f"--results={results}"
    timed = bench("run", *arguments, PYTHONPATH=without_tensorflow(tmp_path / "absent"))
    assert timed.returncode == 0, timed.stderr
    assert "ours/floor" in timed.stdout and ("optax/ours" in timed.stdout) == (program == "lamb")
    report = json.loads(results.read_text())
    [(name, found)] = report["programs"].items()
    assert report["platform"] == "cpu" and name == program and found["agrees"] and found["difference"] < 1e-4
    timed_ones = {"tfbigbatch", "copy", "product"} | ({"optax"} if program == "lamb" else set())
    assert {name: len(samples) for name, samples in found["samples_ms"].items()} == dict.fromkeys(timed_ones, 2)
    # Weights and both slots; a velocity in place of two.
    least = {"lamb": 12, "muon": 8, "step": 8}[program]
    assert found["compiled"]["in_place_bytes"] >= least * manifest["parameters"] and found["floor_ms"] > 0

    # As another learning rate would.
    if program == "step":
        manifest["expected"]["moved"] = [1.2 * each for each in manifest["expected"]["moved"]]
        (tmp_path / "out" / "step.json").write_text(json.dumps(manifest))
        refused = bench("run", *arguments)
        assert refused.returncode == 1 and "step did not give what was expected" in refused.stderr
        # As --unchecked writes it.
        del manifest["expected"]
        (tmp_path / "out" / "step.json").write_text(json.dumps(manifest))
        unchecked = bench("run", *arguments)
        assert unchecked.returncode == 0 and "not checked" in unchecked.stdout, unchecked.stderr
        assert json.loads(results.read_text())["programs"]["step"]["agrees"] is None


@needs_jax
@pytest.mark.slow
def test_without_a_gpu_it_says_that_it_was_skipped(tmp_path):
    (tmp_path / "lamb.stablehlo").write_bytes(b"")
    (tmp_path / "lamb.json").write_text('{"program": "lamb"}')
    outcome = bench("run", f"--dir={tmp_path}", PYTHONPATH=without_tensorflow(tmp_path / "absent"))
    assert outcome.returncode == 0 and outcome.stdout.startswith("skipped: there is no GPU"), outcome.stderr


@pytest.mark.slow
def test_an_unknown_model_is_one_message(tmp_path):
    outcome = bench("export", f"--out={tmp_path}", "--program=lamb", "--model=resnet5")
    assert outcome.returncode == 1 and "Did you mean 'resnet50'?" in outcome.stderr
    assert "Traceback" not in outcome.stderr and not list(tmp_path.iterdir())


def test_a_folder_without_modules_names_the_command_that_writes_them(tmp_path):
    outcome = bench("run", f"--dir={tmp_path}")
    assert outcome.returncode == 1 and outcome.stderr.startswith("error:")
    assert f"export --out={tmp_path}" in outcome.stderr


@pytest.fixture
def gpu(monkeypatch):
    """The module, without TensorFlow and JAX."""
    monkeypatch.syspath_prepend(os.path.join(ROOT, "benchmarks"))
    import gpu

    return gpu


def test_made_up_values_are_of_their_kind(gpu):
    ones, words, weights = gpu.made([([2], "float32", 1), ([50], "int32", {"below": 3}), ([200], "float32", "weight")])
    assert ones.tolist() == [1, 1] and set(words.tolist()) == {0, 1, 2}
    assert weights.dtype == "float32" and 0.01 < weights.std() < 0.03
    assert gpu.moved([ones], [ones + [3, 4]]) == [5.0]


def test_the_floor_is_of_bytes_and_operations(gpu, capsys):
    manifest = {"program": "muon", "bytes": 4_000_000, "flops": 1e9}
    # 8 bytes of a million elements in 1 ms: 8 GB/s. 2 * 1000^3 operations in 2 ms: a TFLOP/s.
    samples = {"tfbigbatch": [9.0, 9.0], "tfbigbatch in a loop": [3.0, 3.0], "copy": [1.0, 1.0], "product": [2.0, 2.0]}
    report = gpu._report(manifest, 1e9, samples, samples, 10**6, 1000)
    assert report["floor_ms"] == pytest.approx(0.5 + 1.0) and report["ratios"] == {"ours/floor": pytest.approx(2.0)}
    assert "at most" not in capsys.readouterr().out
