"""Sharded updates over processes: the weights, the state of each, and checkpoints."""

import numpy as np
import pytest
import tensorflow as tf

from tests.distributed.sharded_worker import CASES, restored
from tests.distributed.test_optimizers import run_together
from tests.helpers.keras_versions import KERAS_VERSIONS

pytestmark = pytest.mark.slow
both_versions = pytest.mark.parametrize("keras_version", KERAS_VERSIONS)


@pytest.fixture(
    scope="module", params=[(2, 1), (4, 1), (2, 2)], ids=["2 processes", "4 processes", "2 processes of 2 devices"]
)
def of_processes(request, tmp_path_factory):
    """What each process ended with: a list of dictionaries of arrays."""
    directory = tmp_path_factory.mktemp("cluster")
    processes, devices = request.param
    run_together(processes, directory, "tests.distributed.sharded_worker", str(devices))
    found = [dict(np.load(directory / f"worker{i}.npz")) for i in range(processes)]
    assert all(each["replicas"] == processes * devices for each in found)
    return found


@both_versions
@pytest.mark.parametrize("case", list(CASES))
def test_all_replicas_end_with_the_weights_of_unsharded_updates(of_processes, case, keras_version):
    tolerance = {"rtol": 1e-5, "atol": 1e-6} if case == "shampoo" else {"rtol": 0.0}
    first = of_processes[0]
    names = [name for name in first if name.startswith(f"{case}/{keras_version}/True/")]
    assert names
    for name in names:
        expected = first[name.replace("/True/", "/False/")][0]
        for copy in (copy for each in of_processes for copy in each[name]):
            np.testing.assert_array_equal(copy, first[name][0], err_msg=name)
            np.testing.assert_allclose(copy, expected, err_msg=name, **tolerance)


@both_versions
def test_a_process_has_the_state_of_its_own_layers(of_processes, keras_version):
    whole = int(of_processes[0][f"bytes/{keras_version}/False"])
    own = [int(each[f"bytes/{keras_version}/True"]) for each in of_processes]
    devices = int(of_processes[0]["replicas"]) // len(of_processes)
    assert sum(own) == whole / devices and max(own) < whole / devices


@both_versions
def test_checkpoints_are_those_of_an_unsharded_optimizer(of_processes, keras_version, tmp_path):
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    weights, saved = restored(strategy, keras_version, str(tmp_path))
    assert len(saved) >= 12
    for each in of_processes:
        assert {name for name in each if name.startswith(f"saved/{keras_version}/")} == {
            f"saved/{keras_version}/{name}" for name in saved
        }
        for name, value in saved.items():
            np.testing.assert_allclose(each[f"saved/{keras_version}/{name}"], value, rtol=1e-5, err_msg=name)
        for index, weight in enumerate(weights):
            np.testing.assert_allclose(each[f"restored/{keras_version}/{index}"], weight, rtol=1e-5)
