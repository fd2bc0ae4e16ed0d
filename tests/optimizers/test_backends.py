"""The optimizers of Keras 3 on JAX and PyTorch: TensorFlow's weights, files, devices, optax, torch.optim."""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.helpers import backend_program
from tests.test_command_line import ROOT

PROGRAM = "tests.helpers.backend_program"


def _of(backend, *marks):
    """A parameter of a test: the backend, which may not be installed."""
    missing = importlib.util.find_spec(backend) is None
    return pytest.param(backend, marks=[pytest.mark.skipif(missing, reason=f"{backend} is not installed"), *marks])


def _run(backend, folder, *arguments):
    """What the program found on a backend."""
    environment = {
        **os.environ,
        "KERAS_BACKEND": backend,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "CUDA_VISIBLE_DEVICES": "-1",
    }
    command = [sys.executable, "-m", PROGRAM, str(folder), *arguments]
    outcome = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=500)
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    return dict(np.load(folder / f"{backend}.npz"))


@pytest.fixture(scope="module", params=[_of("jax"), _of("torch", pytest.mark.slow)])
def quick(request, tmp_path_factory):
    """(A backend, what the program found on it in a few steps.)"""
    return request.param, _run(request.param, tmp_path_factory.mktemp("quick"), "quick")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of models that were trained on TensorFlow, in this process, and will be continued elsewhere."""
    path = tmp_path_factory.mktemp("backends")
    np.savez(path / "tensorflow.npz", **backend_program.results(), **backend_program.saved(str(path)))
    return path


@pytest.fixture(scope="module")
def of_tensorflow(folder):
    return dict(np.load(folder / "tensorflow.npz"))


@pytest.fixture(scope="module", params=[_of("jax"), _of("torch")])
def backend(request, folder):
    """(A backend, what the program found on it.)"""
    return request.param, _run(request.param, folder)


def test_a_few_steps_are_those_of_tensorflow_which_is_not_imported(quick):
    for key, expected in backend_program.steps().items():
        np.testing.assert_allclose(quick[1][key], expected, rtol=1e-4, atol=1e-6, err_msg=key)
    assert not quick[1]["imported tensorflow"]


def test_what_stays_tensorflows_is_refused(quick):
    name, found = quick
    for refused in ("Adasum", "LocalSteps"):
        assert str(found[f"refused/{refused}"]).startswith(
            f"{refused} is for Keras' TensorFlow backend, and Keras runs on {name}: set KERAS_BACKEND=tensorflow"
        )
    for argument in ("layer_statistics", "shard_updates"):
        assert f"LAMB: {argument} is for Keras' TensorFlow backend" in str(found[f"refused/{argument}"])
    assert "Did you mean 'accumulation_steps'" in str(found["refused/gradient_accumulation_steps"])


@pytest.mark.slow
@pytest.mark.parametrize("name", [*backend_program.OPTIMIZERS, "bfloat16"])
def test_the_weights_are_those_of_tensorflow(backend, of_tensorflow, name):
    """In mixed precision too, where moments are kept in float32."""
    tolerance = {"rtol": 0.05, "atol": 0.01} if name == "bfloat16" else {"rtol": 2e-4, "atol": 2e-5}
    for key in (key for key in of_tensorflow if key.startswith(f"{name}/")):
        np.testing.assert_allclose(backend[1][key], of_tensorflow[key], **tolerance, err_msg=key)


@pytest.mark.slow
@pytest.mark.parametrize("name", backend_program.CONTINUED)
def test_a_file_of_one_backend_is_continued_on_another(backend, of_tensorflow, folder, name):
    for key in (key for key in of_tensorflow if key.startswith(f"whole {name}/")):
        expected = of_tensorflow[key]
        np.testing.assert_allclose(backend[1][f"continued {key}"], expected, rtol=5e-4, atol=5e-5, err_msg=key)
    back = backend_program.continued(str(folder), backend[0])
    for key in (key for key in back if key.startswith(f"whole {name}/")):
        np.testing.assert_allclose(back[key], backend[1][key], rtol=5e-4, atol=5e-5, err_msg=key)


def _only(backend, name):
    if backend[0] != name:
        pytest.skip(f"of {name} only")
    return backend[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lamb", "muon", "shampoo"])
def test_four_devices_end_where_one_does(backend, name):
    found = _only(backend, "jax")
    for key in (key for key in found if key.startswith(f"4 devices {name}/")):
        np.testing.assert_allclose(found[key], found[key.replace("4", "1", 1)], rtol=1e-4, atol=1e-5, err_msg=key)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adamw", "muon", "muon nesterov"])
def test_the_weights_are_those_of_torch_optim(backend, name):
    found = _only(backend, "torch")
    keys = [key for key in found if key.startswith(f"optim {name}/")]
    if not keys:
        pytest.skip("torch.optim has no Muon: it came with PyTorch 2.9")
    for key in keys:
        np.testing.assert_allclose(found[f"beside {key}"], found[key], rtol=2e-5, atol=5e-6, err_msg=key)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_two_processes_of_torch_end_where_one_does(tmp_path):
    environment = {**os.environ, "KERAS_BACKEND": "torch", "CUDA_VISIBLE_DEVICES": "-1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.helpers.torch_data_parallel"]
    for processes in (1, 2):
        running = [
            subprocess.Popen([*command, str(rank), str(processes), str(tmp_path)], cwd=ROOT, env=environment)
            for rank in range(processes)
        ]
        try:
            assert [each.wait(timeout=200) for each in running] == [0] * processes
        finally:
            for each in running:
                each.kill()
    alone, first, second = (dict(np.load(tmp_path / f"{name}.npz")) for name in ("1_0", "2_0", "2_1"))
    for key, expected in alone.items():
        np.testing.assert_allclose(first[key], expected, rtol=1e-4, atol=1e-5, err_msg=key)
        np.testing.assert_array_equal(first[key], second[key], err_msg=key)
