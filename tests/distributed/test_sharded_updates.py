"""Sharded updates over processes: the weights, the state of each, and checkpoints."""

import os
import tempfile

import numpy as np
import pytest
import tensorflow as tf

from tests.distributed.worker import run_together
from tests.helpers.keras_versions import KERAS_VERSIONS, make, tensor_variables, variables
from tests.helpers.replica_steps import SHAMPOO, WEIGHTS, stepped

CASES = {
    "lamb": {"name": "LAMB", "weight_decay": 0.01},
    "lamb.accumulated": {"name": "LAMB", "accumulation_steps": 2, "layer_statistics": True},
    "lars": {"name": "LARS", "use_ema": True, "ema_overwrite_frequency": 2},
    "muon": {"name": "Muon"},
    "shampoo": SHAMPOO,
}


def optimizer_of(strategy, keras_version, shard):
    """(A LAMB that accumulates, and its variables), built."""
    with strategy.scope():
        weights = variables(keras_version, {name: np.ones(shape) for name, shape in WEIGHTS.items()})
        lamb = make(keras_version, "LAMB", learning_rate=0.05, accumulation_steps=2, shard_updates=shard)
        lamb.build(weights)
    return lamb, weights


def step_and_a_half(strategy, lamb, weights, number):
    """A step and a micro-batch more, on gradients that depend on `number`."""

    def in_replica():
        gradients = [tf.fill(weight.shape, (0.1 + number) / strategy.num_replicas_in_sync) for weight in weights]
        lamb.apply_gradients(zip(gradients, weights))

    @tf.function
    def step():
        strategy.run(in_replica)

    for _ in range(3):
        step()


def restored(strategy, keras_version, directory):
    """Weights after steps with a checkpoint after each: sharded, unsharded, sharded. And what the first file holds."""
    for number, shard in enumerate((True, False, True)):
        lamb, weights = optimizer_of(strategy, keras_version, shard)
        tensors = [each if isinstance(each, tf.Variable) else each.value for each in weights]
        checkpoint = tf.train.Checkpoint(optimizer=lamb, weights=tensors)
        if number:
            checkpoint.read(os.path.join(directory, str(number - 1))).assert_existing_objects_matched()
        step_and_a_half(strategy, lamb, weights, number)
        checkpoint.write(os.path.join(directory, str(number)))
    reader = tf.train.load_checkpoint(os.path.join(directory, "0"))
    shapes = reader.get_variable_to_shape_map()
    saved = {name: reader.get_tensor(name) for name in shapes if "named_state" in name and "layout" not in name}
    return [np.asarray(weight) for weight in weights], saved


def state_bytes(strategy, lamb):
    """Bytes of moments and accumulators in this process."""
    copies = [copy for each in tensor_variables(lamb) for copy in strategy.experimental_local_results(each)]
    return sum(copy.shape.num_elements() * copy.dtype.size for copy in copies if copy.shape.rank)


def in_a_worker(strategy, directory):
    """Arrays by name; those of weights have an axis for the replicas of this process."""
    directory = tempfile.mkdtemp(dir=directory)
    arrays = {"replicas": np.asarray(strategy.num_replicas_in_sync)}
    for version in KERAS_VERSIONS:
        for case, options in CASES.items():
            for shard in (False, True):
                outcomes = stepped(strategy, version, shard_updates=shard, **options)
                arrays.update(
                    {f"{case}/{version}/{shard}/{index}": np.stack(each) for index, each in enumerate(outcomes)}
                )
        weights, saved = restored(strategy, version, os.path.join(directory, version))
        arrays.update({f"restored/{version}/{index}": weight for index, weight in enumerate(weights)})
        arrays.update({f"saved/{version}/{name}": value for name, value in saved.items()})
        for shard in (False, True):
            lamb, _ = optimizer_of(strategy, version, shard)
            arrays[f"bytes/{version}/{shard}"] = np.asarray(state_bytes(strategy, lamb))
    return arrays


pytestmark = pytest.mark.slow
both_versions = pytest.mark.parametrize("keras_version", KERAS_VERSIONS)


@pytest.fixture(
    scope="module", params=[(2, 1), (4, 1), (2, 2)], ids=["2 processes", "4 processes", "2 processes of 2 devices"]
)
def of_processes(request, tmp_path_factory):
    """What each process ended with: a list of dictionaries of arrays."""
    processes, devices = request.param
    found = run_together(processes, tmp_path_factory.mktemp("cluster"), in_a_worker, devices=devices)
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
