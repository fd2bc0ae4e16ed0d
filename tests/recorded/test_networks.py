"""The networks beside what is recorded of them, and in Keras' own `fit` on TensorFlow and JAX."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.helpers.repository import ROOT
from tests.recorded import networks


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_a_network_computes_what_is_recorded(name):
    # Half precision is rounded otherwise by units in the last place; bfloat16's are eight times float16's, and a
    # processor without instructions for it rounds at other places: 3.6% of the largest output there, 0.2% in float16.
    tolerance = 5e-2 if "bfloat16" in name else 2e-2 if "float16" in name else 1e-5
    expected = np.load(os.path.join(os.path.dirname(__file__), "networks.npz"))
    for part, found in networks.computed(name).items():
        largest = np.abs(expected[part]).max()
        np.testing.assert_allclose(found, expected[part], rtol=tolerance, atol=tolerance * largest, err_msg=part)


QUICK = ["lenet"]
SLOW = ["row classifier, projection", "alexnet, two groups", "alexnet, batch", "resnet", "resnet, recomputed"]


@pytest.mark.parametrize("backend", ["jax", "torch"])
@pytest.mark.parametrize(
    "names", [QUICK, pytest.param([*SLOW, "bert pretrainer"], marks=pytest.mark.slow)], ids=["quick", "slow"]
)
def test_fit_on_another_backend_has_the_losses_of_tensorflow(names, backend):
    pytest.importorskip(backend)
    done = subprocess.run(
        [sys.executable, "-m", "tests.recorded.networks", *names],
        cwd=ROOT,
        env={**os.environ, "KERAS_BACKEND": backend},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    for name in names:
        np.testing.assert_allclose(found[name], networks.losses_of_fit(name), rtol=2e-3, err_msg=name)
