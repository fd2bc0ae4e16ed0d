"""Adasum over real processes, and over more logical CPUs than this process has."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.distributed.adasum_worker import CASES, LONG_CASES, SHAPES, STEPS, gradients
from tests.distributed.test_optimizers import run_together
from tests.helpers.references.adasum_in_numpy import tree
from tests.test_command_line import ROOT


def logical_cpus(replicas, directory):
    command = [sys.executable, "-m", "tests.distributed.adasum_worker", directory, str(replicas)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=300)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((2, 0), marks=pytest.mark.slow),
        pytest.param((4, 0), marks=pytest.mark.slow),
        pytest.param((0, 5), marks=pytest.mark.slow),
        pytest.param((0, 8), marks=pytest.mark.slow),
    ],
    ids=["2 processes", "4 processes", "5 replicas", "8 replicas"],
)
def ends(request, tmp_path_factory):
    """What each process ended with: a list of dictionaries of arrays."""
    directory = tmp_path_factory.mktemp("cluster")
    processes, replicas = request.param
    if processes:
        run_together(processes, directory, "tests.distributed.adasum_worker")
    else:
        logical_cpus(replicas, directory)
    return [dict(np.load(directory / f"worker{i}.npz")) for i in range(processes or 1)]


def expected(replicas, case):
    """Minus the combination of the groups' means, by name."""
    size = CASES[case].get("group_size", 1)
    result = {}
    for name, values in gradients(replicas).items():
        groups = values.reshape([replicas // size, size, *SHAPES[name]]).mean(axis=1)
        result[name] = -tree(groups)
    return result


@pytest.mark.parametrize("case", CASES)
def test_the_combination_is_that_of_the_tree(ends, case):
    replicas = int(ends[0]["replicas"])
    if replicas % CASES[case].get("group_size", 1):
        pytest.skip("groups of 2 need an even number of replicas")
    for i, (name, value) in enumerate(expected(replicas, case).items()):
        np.testing.assert_allclose(ends[0][f"{case}/{i}"], value, rtol=2e-6, atol=2e-6, err_msg=name)


def test_bfloat16_is_sent_as_it_is_and_combined_in_float32(ends):
    for i, values in enumerate(gradients(int(ends[0]["replicas"])).values()):
        sent = tf.cast(tf.cast(values, tf.bfloat16), tf.float64).numpy()
        np.testing.assert_allclose(ends[0][f"bfloat16/{i}"], tree(sent), rtol=2**-8, atol=2**-12)


@pytest.mark.parametrize("case", LONG_CASES)
def test_all_replicas_hold_the_same_bits_after_many_updates(ends, case):
    for i in range(len(SHAPES)):
        copies = np.concatenate([end[f"{case}/{i}"] for end in ends])
        assert np.isfinite(copies).all() and np.abs(copies[0] - 1.0).max() > 1e-3 * STEPS**0.5
        for copy in copies[1:]:
            np.testing.assert_array_equal(copy, copies[0])
