"""Sharded updates over processes: the weights."""

import numpy as np
import pytest

from tests.distributed.worker import run_together
from tests.helpers.keras_versions import KERAS_VERSIONS
from tests.helpers.replica_steps import SHAMPOO, stepped

CASES = {
    "lamb": {"name": "LAMB", "weight_decay": 0.01},
    "lamb.accumulated": {"name": "LAMB", "accumulation_steps": 2, "layer_statistics": True},
    "lars": {"name": "LARS", "use_ema": True, "ema_overwrite_frequency": 2},
    "muon": {"name": "Muon"},
    "shampoo": SHAMPOO,
}


def in_a_worker(strategy, directory):
    """Arrays by name; those of weights have an axis for the replicas of this process."""
    arrays = {"replicas": np.asarray(strategy.num_replicas_in_sync)}
    for version in KERAS_VERSIONS:
        for case, options in CASES.items():
            for shard in (False, True):
                outcomes = stepped(strategy, version, shard_updates=shard, **options)
                arrays.update(
                    {f"{case}/{version}/{shard}/{index}": np.stack(each) for index, each in enumerate(outcomes)}
                )
    return arrays


pytestmark = pytest.mark.slow


@pytest.fixture(
    scope="module", params=[(2, 1), (4, 1), (2, 2)], ids=["2 processes", "4 processes", "2 processes of 2 devices"]
)
def of_processes(request, tmp_path_factory):
    """What each process ended with: a list of dictionaries of arrays."""
    processes, devices = request.param
    found = run_together(processes, tmp_path_factory.mktemp("cluster"), in_a_worker, devices=devices)
    assert all(each["replicas"] == processes * devices for each in found)
    return found


@pytest.mark.parametrize("keras_version", KERAS_VERSIONS)
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
