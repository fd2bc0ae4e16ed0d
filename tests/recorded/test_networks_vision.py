"""The image networks beside what is recorded of them, and in Keras' own `fit` on TensorFlow and JAX."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.helpers import fit_program, preloaded
from tests.recorded import networks_vision


@pytest.mark.parametrize("file", networks_vision.NETWORKS)
def test_a_network_computes_what_is_recorded(file):
    found, expected = networks_vision.computed(file), networks_vision.recorded(file)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-5 * np.abs(values).max(), err_msg=name)


def test_fit_on_jax_has_the_losses_of_tensorflow():
    pytest.importorskip("jax")
    done = subprocess.run(
        [sys.executable, "-m", "tests.helpers.fit_program"],
        cwd=preloaded.ROOT,
        env={**os.environ, "KERAS_BACKEND": "jax"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    on_jax, here = json.loads(done.stdout), fit_program.losses()
    assert on_jax.keys() == here.keys()
    for name, expected in here.items():
        np.testing.assert_allclose(on_jax[name], expected, rtol=2e-3, err_msg=name)
