"""The image networks beside what is recorded of them, and in Keras' own `fit` on TensorFlow and JAX."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.helpers import preloaded
from tests.recorded import networks_vision


@pytest.mark.parametrize("file", networks_vision.NETWORKS)
def test_a_network_computes_what_is_recorded(file):
    found, expected = networks_vision.computed(file), networks_vision.recorded(file)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-5 * np.abs(values).max(), err_msg=name)


QUICK = ["lenet"]
SLOW = [name for name in networks_vision.FITTED if name not in QUICK]


@pytest.mark.parametrize("names", [QUICK, pytest.param(SLOW, marks=pytest.mark.slow)], ids=["quick", "slow"])
def test_fit_on_jax_has_the_losses_of_tensorflow(names):
    pytest.importorskip("jax")
    done = subprocess.run(
        [sys.executable, "-m", "tests.recorded.networks_vision", "--fit", *names],
        cwd=preloaded.ROOT,
        env={**os.environ, "KERAS_BACKEND": "jax"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    on_jax, here = json.loads(done.stdout.splitlines()[-1]), networks_vision.losses_of_fit(names)
    for name in names:
        np.testing.assert_allclose(on_jax[name], here[name], rtol=2e-3, err_msg=name)
