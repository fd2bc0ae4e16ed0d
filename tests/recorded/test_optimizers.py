"""The optimizers' weights beside the recorded ones: a few cases here, all of them with the slow tests."""

import subprocess
import sys

import numpy as np
import pytest

from tests.recorded import optimizers


@pytest.mark.parametrize("setting, option", [("keras2", "decay"), ("keras3", "accumulated")])
@pytest.mark.parametrize("name", optimizers.OPTIONS)
def test_an_option_gives_the_recorded_weights(setting, name, option):
    case = f"{name}: {option}"
    found = optimizers.weights_after(setting, optimizers.cases(setting)[case])
    # Another processor rounds otherwise.
    np.testing.assert_allclose(found, optimizers.recorded(setting)[case], rtol=1e-4, atol=1e-5)


@pytest.mark.slow  # Minutes each.
@pytest.mark.parametrize("setting", optimizers.SETTINGS)
def test_every_option_gives_the_recorded_weights(setting):
    done = subprocess.run(
        [sys.executable, "-m", "tests.recorded.optimizers", setting], capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stdout
