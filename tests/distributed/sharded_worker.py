"""Sharded updates in real processes, beside unsharded ones.

`python -m tests.distributed.sharded_worker DIRECTORY DEVICES` is one worker of TF_CONFIG's cluster with as many logical
CPUs and leaves worker0.npz, worker1.npz and so on, and checkpoints.
"""

import os
import sys
from unittest import mock

import numpy as np
import tensorflow as tf

from tests.distributed.sharing_worker import SHAMPOO, WEIGHTS, multi_worker_strategy, stepped
from tests.helpers.keras_versions import KERAS_VERSIONS, make, tensor_variables, variables
from tfbigbatch.cluster.tf_config import parse_tf_config
from tfbigbatch.optimizers import assignment, sharded_updates
from tfbigbatch.training import strategy as strategies

CASES = {
    "lamb": {"name": "LAMB", "weight_decay": 0.01},
    "lamb.accumulated": {"name": "LAMB", "accumulation_steps": 2, "layer_statistics": True},
    "lars": {"name": "LARS", "use_ema": True, "ema_overwrite_frequency": 2},
    "muon": {"name": "Muon"},
    "shampoo": SHAMPOO,
}
# TensorFlow makes no bfloat16 variables under MultiWorkerMirroredStrategy.
DTYPES = ("float32", "float64", "float16")


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


def sent(strategy, dtype, is_gathered):
    """(What every replica of this process has of variables that one replica set, what it set)."""
    with strategy.scope():
        targets = [tf.Variable(tf.zeros([size], dtype)) for size in (3, 1, 6, 4, 9)]
    shards = sharded_updates.Shards("LAMB", strategy, [3.0, 1.0, 6.0, 4.0, 9.0])
    values = [tf.cast(tf.linspace(-1.0, index + 2.0, target.shape[0]), dtype) for index, target in enumerate(targets)]
    for owner, value, target in zip(shards.owners, values, targets):
        shards.run(owner, lambda own, value: own.assign(value), target, value)
    with (
        mock.patch.object(assignment, "is_gathered", lambda sizes: is_gathered),
        # Several rounds of a few entries.
        mock.patch.object(sharded_updates, "_ROUND_BYTES", 16),
    ):
        shards.send(shards.owners, targets)
    copies = [
        np.stack([tf.cast(copy, tf.float64).numpy() for copy in strategy.experimental_local_results(target)])
        for target in targets
    ]
    return copies, [tf.cast(value, tf.float64).numpy() for value in values]


def state_bytes(strategy, lamb):
    """Bytes of moments and accumulators in this process."""
    copies = [copy for each in tensor_variables(lamb) for copy in strategy.experimental_local_results(each)]
    return sum(copy.shape.num_elements() * copy.dtype.size for copy in copies if copy.shape.rank)


def refusal(function):
    try:
        function()
    except ValueError as error:
        return str(error)
    return "none"


def ends(strategy, directory):
    """Arrays by name; those of weights have an axis for the replicas of this process."""
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
        arrays[f"refusal/{version}"] = np.asarray(refusal(lambda lamb=lamb: lamb.save_own_variables({})))
    for dtype in DTYPES:
        for is_gathered in (True, False):
            copies, values = sent(strategy, dtype, is_gathered)
            for index, (copy, value) in enumerate(zip(copies, values)):
                arrays[f"sent/{dtype}/{is_gathered}/{index}"] = copy
                arrays[f"expected/{dtype}/{is_gathered}/{index}"] = value
    return arrays


def main(directory, devices):
    devices = int(devices)
    cpus = [tf.config.LogicalDeviceConfiguration()] * devices
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], cpus)
    strategy = multi_worker_strategy(devices)
    index = parse_tf_config(os.environ["TF_CONFIG"])[1]
    arrays = ends(strategy, os.path.join(directory, f"checkpoints{index}"))
    np.savez(os.path.join(directory, f"worker{index}.npz"), **arrays)
    # The first worker serves the cluster: it must not leave before the others are done.
    strategies.barrier(strategy)


if __name__ == "__main__":
    main(*sys.argv[1:])
