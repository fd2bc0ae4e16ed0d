"""Matrices that replicas share: processes of one and two devices, and more CPUs than this process has."""

from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from tests.distributed.worker import run_together
from tests.helpers.keras_versions import KERAS_VERSIONS
from tests.helpers.replica_steps import SHAMPOO, STEPS, stepped
from tfbigbatch.optimizers import sharing

# tests/distributed/test_optimizers.py has two processes with Muon in the default run.
pytestmark = pytest.mark.slow


def in_a_worker(strategy, directory):
    """Arrays by name, each with an axis for the replicas of this process."""
    cases = {
        **{f"muon/{version}": stepped(strategy, version, share_work=True) for version in KERAS_VERSIONS},
        "muon/accumulated": stepped(strategy, "tf_keras", share_work=True, accumulation_steps=STEPS),
        "shampoo": stepped(strategy, "tf_keras", share_work=True, **SHAMPOO),
    }
    # By collectives of up to 100 numbers.
    with mock.patch.object(sharing, "_PACK_BYTES", 400):
        cases["packs"] = stepped(strategy, "tf_keras", share_work=True)
    return {f"{name}/{index}": np.stack(each) for name, found in cases.items() for index, each in enumerate(found)}


@pytest.mark.parametrize("processes, devices", [(2, 1), (2, 2), (3, 1), (1, 8)])
def test_all_replicas_have_the_same_bits_and_those_of_one_but_for_rounding(processes, devices, tmp_path):
    of_one_device = in_a_worker(tf.distribute.OneDeviceStrategy("CPU:0"), tmp_path)
    of_processes = run_together(processes, tmp_path, in_a_worker, devices=devices)
    first = of_processes[0]
    assert list(first) == list(of_one_device)
    for each in of_processes:
        for name, copies in each.items():
            assert len(copies) == devices
            for copy in copies:
                np.testing.assert_array_equal(copy, first[name][0], err_msg=name)
                np.testing.assert_allclose(copy, of_one_device[name][0], rtol=1e-4, atol=1e-6, err_msg=name)
    one, other = KERAS_VERSIONS
    for name in (name for name in first if name.startswith(f"muon/{one}/")):
        np.testing.assert_allclose(first[name], first[name.replace(one, other)], rtol=1e-5, atol=1e-6)
