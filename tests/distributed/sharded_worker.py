"""Sharded updates in real processes, beside unsharded ones.

`python -m tests.distributed.sharded_worker DIRECTORY DEVICES` is one worker of TF_CONFIG's cluster with as many logical
CPUs and leaves worker0.npz, worker1.npz and so on, and checkpoints.
"""

import os
import sys

import numpy as np
import tensorflow as tf

from tests.distributed.sharing_worker import SHAMPOO, WEIGHTS, multi_worker_strategy, stepped
from tests.helpers.keras_versions import KERAS_VERSIONS, make, tensor_variables, variables
from tfbigbatch.cluster.tf_config import parse_tf_config
from tfbigbatch.training import strategy as strategies

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
