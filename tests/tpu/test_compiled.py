"""Steps that are compiled for real slices: `make tpu-check` installs what that needs."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.tpu import environments, functionalize, step

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, environments.FOLDER)

# Two processes that import TensorFlow or JAX, and a compiler: a minute each.
pytestmark = pytest.mark.slow
installed = pytest.mark.skipif(not os.path.isdir(FOLDER), reason="the TPU's compiler is not installed: make tpu-check")


def tpu_check(*arguments):
    """(exit code, the outcome) of the command with --json."""
    command = [sys.executable, "-m", "tfbigbatch", "tpu-check", "--json", *arguments]
    environment = {**os.environ, "PYTHONPATH": ROOT}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@installed
@pytest.mark.parametrize("topology", ["v2-16", "v4:2x2x2", "v5e:8", "v5p:8", "v6e:8"])
def test_a_small_step_compiles_for_every_generation(topology):
    code, found = tpu_check("--config=experiments/digits/lstm_legw.py", f"--topology={topology}", "--replicas=8")
    assert code == 0 and found["fits"] and found["per_replica_batch"] == 64 and found["findings"] == []
    # 8 rows of 8 pixels into 64 units: what they are multiplied by forwards, and twice that backwards, of every turn.
    assert found["loops"] == 2 and found["uncounted_loops"] == 0
    assert found["flops"] >= 3 * 8 * 2 * 64 * (8 + 64) * 4 * 64
    # All gradients go together.
    assert [(each["kind"], each["count"]) for each in found["collectives"]] == [("all-reduce", 1)]
    assert found["collectives"][0]["bytes"] >= 4 * found["weights"]


@installed
def test_what_does_not_fit_is_told_with_its_layers():
    code, found = tpu_check(
        "--config=experiments/mnist/lenet_small_batch.py",
        "--topology=v2-8",
        "--replicas=1",
        "--config.batch_size=60000",
        "--config.model.filters=96",
    )
    assert code == 1 and found["compiles"] and not found["fits"]
    assert found["needed_bytes"] > found["usable_bytes"] and found["allocations"]
    assert any("conv" in each["name"] for each in found["allocations"])


def test_a_functionalized_training_step_computes_what_the_step_does(quick_config):
    config = quick_config(accumulation_steps=2)
    config.optimizer = {"name": "lamb", "weight_decay": 0.01, "global_clipnorm": 1.0}
    traced = step.trace(config, 1)
    pure_step = functionalize.functionalize(traced.function)
    random = np.random.RandomState(0)
    images, labels = tf.nest.flatten(traced.inputs)
    batch = (tf.constant(random.randint(0, 17, images.shape), images.dtype), tf.zeros(labels.shape, labels.dtype))
    for variable in pure_step.variables:
        if variable.dtype == tf.float32 and variable.shape.rank:
            variable.assign(random.normal(size=variable.shape, scale=0.1))
            # Second moments are not negative.
            variable.assign(tf.abs(variable))
    before = [tf.constant(variable.numpy()) for variable in pure_step.variables]
    pure = tf.function(pure_step.function, jit_compile=True, autograph=False)(*batch, *before)
    traced.function(*batch)
    moved = 0
    for variable, value, old in zip(pure_step.variables, pure[-len(before) :], before, strict=True):
        np.testing.assert_allclose(variable.numpy(), value, rtol=1e-4, atol=1e-6, err_msg=variable.name)
        moved += bool(np.any(value.numpy() != old.numpy()))
    assert moved > len(before) // 2
