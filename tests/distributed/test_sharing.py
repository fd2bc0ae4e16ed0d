"""Matrices that replicas share: processes of one and two devices, and more CPUs than this process has."""

import subprocess
import sys

import numpy as np
import pytest

from tests.distributed.sharing_worker import ends
from tests.distributed.test_optimizers import run_together
from tests.helpers.keras_versions import KERAS_VERSIONS
from tests.optimizers.test_sharing import ONE_DEVICE
from tests.test_command_line import ROOT

# tests/distributed/test_optimizers.py has two processes with Muon in the default run.
pytestmark = pytest.mark.slow


@pytest.fixture(
    scope="module",
    params=[(2, 1), (2, 2), (3, 1), (1, 8)],
    ids=["2 processes", "2 processes of 2 devices", "3 processes", "8 replicas"],
)
def of_processes(request, tmp_path_factory):
    """What each process ended with: a list of dictionaries of arrays."""
    directory = tmp_path_factory.mktemp("cluster")
    processes, devices = request.param
    if processes == 1:
        command = [sys.executable, "-m", "tests.distributed.sharing_worker", directory, str(devices)]
        subprocess.run(command, cwd=ROOT, check=True, timeout=300)
    else:
        run_together(processes, directory, "tests.distributed.sharing_worker", str(devices))
    found = [dict(np.load(directory / f"worker{i}.npz")) for i in range(processes)]
    assert all(each["replicas"] == processes * devices for each in found)
    return found


@pytest.fixture(scope="module")
def of_one_device():
    return ends(ONE_DEVICE)


def test_all_replicas_have_the_same_bits_and_those_of_one_but_for_rounding(of_processes, of_one_device):
    first = of_processes[0]
    assert list(first) == list(of_one_device)
    for each in of_processes:
        for name in set(first) - {"replicas"}:
            for copy in each[name]:
                np.testing.assert_array_equal(copy, first[name][0], err_msg=name)
                np.testing.assert_allclose(copy, of_one_device[name][0], rtol=1e-4, atol=1e-6, err_msg=name)


def test_accumulated_steps_and_both_kerases_agree(of_processes):
    [one, other] = KERAS_VERSIONS
    names = [name for name in of_processes[0] if name.startswith(f"muon/{one}/")]
    assert names
    for name in names:
        same = of_processes[0][name.replace(one, other)]
        np.testing.assert_allclose(of_processes[0][name], same, rtol=1e-5, atol=1e-6)
