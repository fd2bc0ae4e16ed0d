"""The program in which a TPU's replicas share matrices, run by XLA with several replicas."""

import os
import subprocess
import sys

import pytest

from tests.test_command_line import ROOT


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [2, 5, 16])
def test_every_replica_has_all_matrices(replicas):
    pytest.importorskip("jax")
    devices = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": f"--xla_force_host_platform_device_count={replicas}"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.tpu.shared_program"],
        cwd=ROOT,
        env={**os.environ, **devices},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
