"""Both versions' optimizers in real processes on loopback: the end does not depend on the number of workers."""

import functools
import json
import time

import numpy as np
import pytest
import tensorflow as tf

from tests.distributed.optimizer_worker import CASES, UPDATES, batches, small_model, trained
from tests.helpers import preloaded
from tests.helpers.keras_versions import KERAS_VERSIONS
from tfbigbatch.cluster.local import free_addresses

LIMIT_SECONDS = 300
ALL = [f"{keras_version}/{case}" for keras_version in KERAS_VERSIONS for case in CASES]
# Each case once, and both versions.
HALF = ["tf_keras/lars", "tf_keras/lamb", "keras3/lars.two_micro_batches_by_xla", "keras3/muon"]


def run_together(workers, directory, script="tests.distributed.optimizer_worker", *arguments):
    """Runs a worker script in `workers` processes; none of them outlives this call."""
    addresses = free_addresses(workers)
    logs = [directory / f"worker{i}.log" for i in range(workers)]
    processes = []
    try:
        for i, log in enumerate(logs):
            config = json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": i}})
            log.write_text("")
            processes.append(preloaded.start(script, directory, *arguments, outputs=(log, log), TF_CONFIG=config))
        end = time.monotonic() + LIMIT_SECONDS
        # The first that fails ends the wait: the others would wait for it.
        while None in (codes := [process.exitcode for process in processes]) and not any(codes):
            if time.monotonic() > end:
                break
            time.sleep(0.1)
    finally:
        for process in processes:
            process.kill()
            process.join()
    assert codes == [0] * workers, "\n".join(f"{log.name}: {log.read_text()[-3000:]}" for log in logs)


@pytest.fixture(
    scope="module",
    params=[(2, HALF), pytest.param((2, ALL), marks=pytest.mark.slow), pytest.param((4, ALL), marks=pytest.mark.slow)],
    ids=["2-half", "2", "4"],
)
def workers_ends(request, tmp_path_factory):
    """What each worker of a cluster ended with: a list of dictionaries of arrays."""
    workers, cases = request.param
    directory = tmp_path_factory.mktemp("cluster")
    run_together(workers, directory, "tests.distributed.optimizer_worker", *cases)
    ends = [dict(np.load(directory / f"worker{i}.npz")) for i in range(workers)]
    assert sorted({"/".join(name.split("/")[:2]) for name in ends[0] if "/" in name}) == sorted(cases)
    return ends


@functools.cache
def alone(keras_version, rule, **options):
    """The weights after the same updates in this process, on one device."""
    return trained(keras_version, tf.distribute.get_strategy(), **{**CASES[rule], **options})[0].get_weights()


def test_all_workers_end_in_the_same_bits(workers_ends):
    first, *others = workers_ends
    assert first["replicas"] == len(workers_ends)
    for other in others:
        assert list(other) == list(first)
        for name, value in first.items():
            np.testing.assert_array_equal(other[name], value, err_msg=name)


def test_several_workers_end_where_one_process_does(workers_ends):
    """Micro-batches and XLA end where the same rule ends without them, on the whole batch."""
    ends = workers_ends[0]
    for name in (name.removesuffix("/iterations") for name in ends if name.endswith("/iterations")):
        assert ends[f"{name}/iterations"] == UPDATES
        assert any(key.startswith(f"{name}/state/") for key in ends)
        keras_version, case = name.split("/")
        for i, weight in enumerate(alone(keras_version, case.partition(".")[0])):
            np.testing.assert_allclose(ends[f"{name}/weights/{i}"], weight, rtol=1e-4, atol=1e-6, err_msg=f"{name} {i}")


@pytest.mark.parametrize("keras_version", KERAS_VERSIONS)
@pytest.mark.parametrize("rule", ["lars", "lamb"])
def test_clipping_moving_and_sparse_gradients_are_really_there(keras_version, rule):
    clipped, free = alone(keras_version, rule), alone(keras_version, rule, global_clipnorm=None)
    model = small_model(keras_version)
    for start, one, other in zip(model.get_weights(), clipped, free):
        assert np.abs(one - start).max() > 1e-3 and np.abs(one - other).max() > 1e-3
    x, y = next(iter(batches(8)))
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x) - y))
    table = model.trainable_variables[0]
    assert isinstance(tape.gradient(loss, table.value if keras_version == "keras3" else table), tf.IndexedSlices)
