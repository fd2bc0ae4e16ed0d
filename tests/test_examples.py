"""The programs and notebooks of examples/ run, where what they need is installed."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest

from tests.helpers import preloaded
from tests.helpers.repository import ROOT, read

FOLDER = os.path.join(ROOT, "examples")
NOTEBOOKS = ("own_model.ipynb", "reading_a_report.ipynb")


def _run(name, *arguments, folder=ROOT, **environment):
    """What a program prints, in a process of its own."""
    said = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "PYTHONPATH": ROOT}
    command = [sys.executable, "-W", "ignore", os.path.join(FOLDER, name), *arguments]
    environment = {**os.environ, **said, **environment}
    outcome = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900)
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    return outcome.stdout


def _run_preloaded(name, *arguments, folder, **environment):
    """The same in a copy of a process that has imported TensorFlow."""
    outcome = preloaded.run(
        os.path.join(FOLDER, name), *arguments, folder=folder, MPLBACKEND="agg", PYTHONPATH=ROOT, **environment
    )
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    return outcome.stdout


def test_each_one_is_short_and_in_the_table():
    table = read("examples", "README.md")
    for name in os.listdir(FOLDER):
        if name.endswith((".py", ".ipynb")):
            assert f"]({name})" in table, name
        if name.endswith(".py"):
            text = read("examples", name)
            assert len(text.splitlines()) <= 95, name
            assert "examples/" in text.split('"""')[1] or "make notebooks" in text.split('"""')[1], name


@pytest.mark.parametrize(
    "arguments, said, picture",
    [
        (["own_model_16x.py", "--smoke"], r"^Muon +512 +3 steps +[\d.]+%\n\Z", "own_model_16x.png"),
        (
            ["critical_batch.py", "--smoke"],
            r"^batch +512: held-out loss [\d.]+ \([-+][\d.]+\)$.*gradient noise scale",
            "",
        ),
        (
            ["loss_landscape.py", "--epochs=1", "--points=3"],
            r"^batch 512: loss [\d.]+ to [\d.]+ on the plane; largest eigenvalue",
            "loss_landscape.png",
        ),
        # The slow test starts two workers; Adasum of one is its gradient.
        (
            ["adasum_two_workers.py", "--worker", "--epochs=1"],
            r"^average +loss after 1 epochs ([\d.]+)$.*^Adasum +loss after 1 epochs \1$",
            "",
        ),
        (["custom_task.py", "--duration=8 steps"], r"stopped at step 4 of 8.*the loaded network has", ""),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_the_short_form_runs(tmp_path, arguments, said, picture):
    keras = {"TF_USE_LEGACY_KERAS": "1"} if "--worker" in arguments else {}
    out = _run_preloaded(*arguments, folder=tmp_path, **keras)
    assert re.search(said, out, re.DOTALL | re.MULTILINE), out
    assert not picture or (tmp_path / picture).read_bytes().startswith(b"\x89PNG")


# The default run has the optimizers on JAX in tests/optimizers/test_backends.py.
@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")
def test_jax():
    assert "backend jax, TensorFlow imported: False" in _run("jax_backend.py", "--epochs=1")


@pytest.mark.slow
@pytest.mark.parametrize("legacy", ["", "1"], ids=["keras 3", "keras 2"])
def test_own_model_loses_at_512_and_muon_wins_it_back(legacy, tmp_path):
    out = _run("own_model_16x.py", folder=tmp_path, TF_USE_LEGACY_KERAS=legacy, MPLBACKEND="agg")
    rows = re.findall(r"^(.*?) +\d+ +\d+ steps +([\d.]+)%", out, re.MULTILINE)
    ends = {name.strip(): float(mean) for name, mean in rows}
    assert len(ends) == 7
    assert ends["momentum, the recipe of 32"] < ends["Nesterov momentum, tuned"] - 2
    assert ends["Muon, tuned"] > ends["Nesterov momentum, tuned"] and ends["Muon, tuned"] > ends["momentum"] - 2


def code_of(page):
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", read("docs", page), re.DOTALL | re.MULTILINE))


def test_the_page_start_has_the_code_of_the_example():
    lines = iter(read("examples", "own_model_16x.py").splitlines())
    for line in code_of("start.md").splitlines():
        # `in` goes on where the line before was found: the page's lines are there in their order.
        assert not line or line in lines, line


@pytest.mark.slow
def test_the_critical_batch_is_between_the_sizes():
    out = _run("critical_batch.py")
    losses = [float(loss) for loss in re.findall(r"held-out loss ([\d.]+)", out)]
    assert len(losses) == 6 and losses[-1] > losses[0] + 0.05
    assert 16 < float(re.search(r"critical batch (\d+) \(", out)[1]) < 512


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_two_workers_by_adasum_get_further(seed):
    losses = re.findall(
        r"^(average|Adasum) +loss after 3 epochs ([\d.]+)$", _run("adasum_two_workers.py", f"--seed={seed}"), re.M
    )
    assert float(dict(losses)["Adasum"]) < float(dict(losses)["average"]) - 0.05


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_stored_notebook_has_its_output(name):
    nbformat = pytest.importorskip("nbformat")
    from examples import execute_notebooks

    notebook = nbformat.read(os.path.join(FOLDER, name), as_version=4)
    assert not execute_notebooks.problems(notebook)
    assert any(cell.get("outputs") for cell in notebook.cells)


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs(name, monkeypatch):
    pytest.importorskip("nbclient")
    from examples import execute_notebooks

    monkeypatch.setenv("PYTHONPATH", ROOT)
    notebook = execute_notebooks.execute(os.path.join(FOLDER, name))
    assert not execute_notebooks.problems(notebook)
    if name == "own_model.ipynb":
        assert "in the expected order: True" in str(notebook.cells[-1].outputs)


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
        _example("hugging_face_classifier.py", "torch", "transformers", "datasets"),
    ],
)
def test_the_loss_falls_and_held_out_examples_are_told(name, backend, tmp_path):
    run = _run_preloaded if backend == "tensorflow" else _run
    out = run(name, folder=tmp_path, KERAS_BACKEND=backend)
    first, last, accuracy = re.search(r"loss ([\d.]+) to ([\d.]+), ([\d.]+)% of", out).groups()
    assert float(last) < 0.5 * float(first) and float(accuracy) > 90.0


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("sklearn") is None, reason="scikit-learn is not installed")
def test_the_three_backends_end_alike():
    table = re.findall(r"^(\w+) +([\d.]+%|not installed)$", _run("three_backends.py"), re.MULTILINE)
    assert [backend for backend, _ in table] == ["tensorflow", "jax", "torch"]
    for backend, accuracy in table:
        if importlib.util.find_spec(backend) is None:
            assert accuracy == "not installed"
        else:
            assert float(accuracy.rstrip("%")) > 90.0
