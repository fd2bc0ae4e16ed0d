"""A function of matrices that the replicas share, under any strategy.

`python -m tests.distributed.sharing_worker DIRECTORY DEVICES` is one worker of TF_CONFIG's cluster with as many logical
CPUs and leaves worker0.npz, worker1.npz and so on; without TF_CONFIG it is one process.
"""

import os
import sys
from unittest import mock

import numpy as np
import tensorflow as tf
from tensorflow.python.distribute import collective_all_reduce_strategy

from tests.helpers.keras_versions import KERAS_VERSIONS, make, variables
from tfbigbatch.cluster.tf_config import parse_tf_config
from tfbigbatch.optimizers import sharing
from tfbigbatch.training import strategy as strategies

# Batches [k, rows, columns]: several of one shape, one with more than one matrix, a vector, a last odd one.
SHAPES = [(1, 6, 4), (3, 5, 5), (1, 4, 6), (2, 6, 4), (4, 5, 5), (1, 1, 3), (1, 20, 20)]
WEIGHTS = {"hidden": (6, 8), "conv": (3, 3, 2, 4), "head": (8, 3), "bias": (3,)}
STEPS = 3


def values(dtype="float32"):
    random = np.random.RandomState(0)
    return [random.normal(size=shape).astype(dtype) for shape in SHAPES]


def cube(batch):
    """X X^T X of each matrix."""
    return tf.matmul(tf.matmul(batch, batch, transpose_b=True), batch)


def flops(rows, columns):
    return 4.0 * rows * rows * columns


def mapped(strategy, share, *, dtype="float32", every=None, graph=True):
    """What each replica of this process has of the cubes: a list of arrays for each batch.

    Args:
      every: None, or a boolean: within tf.cond; its other branch gives the matrices as they are.
      graph: in a tf.function.
    """
    found = []

    def merged(strategy, batches, is_due):
        of_replicas = [list(strategy.experimental_local_results(batch)) for batch in batches]

        def cubes():
            return sharing.map_matrices(cube, of_replicas, flops=flops, strategy=strategy, share=share)

        found[:] = cubes() if is_due is None else tf.cond(is_due, cubes, lambda: of_replicas)

    def step(is_due):
        def replica():
            # Made on each replica's device.
            batches = [tf.constant(value) + 0.0 for value in values(dtype)]
            tf.distribute.get_replica_context().merge_call(
                lambda strategy, *args: merged(strategy, *args, is_due), args=(batches,)
            )

        strategy.run(replica)
        return found

    outcomes = tf.function(step)(every) if graph else step(every)
    return [[value.numpy() for value in of_replicas] for of_replicas in outcomes]


# Steps of the graft, with new roots and with those of the step before.
SHAMPOO = {
    "name": "Shampoo",
    "graft": "lamb",
    "graft_steps": 1,
    "root_every": 2,
    "matrix_epsilon": 1e-2,
    "block_size": 4,
}


def stepped(strategy, keras_version, name="Muon", **options):
    """The variables on every replica of this process, after a few steps on gradients that differ by replica."""
    random = np.random.RandomState(1)
    replicas = strategy.num_replicas_in_sync
    with strategy.scope():
        weights = variables(keras_version, {name: random.normal(size=shape) for name, shape in WEIGHTS.items()})
        rule = make(keras_version, name, learning_rate=0.05, **{"global_clipnorm": 1.0, **options})
        rule.build(weights)
    gradients = [random.normal(size=(STEPS, *shape)).astype("float32") for shape in WEIGHTS.values()]

    @tf.function
    def step(number):
        def replica():
            index = tf.distribute.get_replica_context().replica_id_in_sync_group
            # They add up to the gradient, and differ between the replicas.
            part = (1.0 + tf.cast(index, tf.float32) - (replicas - 1) / 2) / replicas
            rule.apply_gradients(
                [(part * tf.constant(each)[number], weight) for each, weight in zip(gradients, weights)]
            )

        strategy.run(replica)

    for number in range(STEPS):
        step(tf.constant(number))
    tensors = [getattr(each, "value", each) if not isinstance(each, tf.Variable) else each for each in weights]
    return [[copy.numpy() for copy in strategy.experimental_local_results(each)] for each in tensors]


def ends(strategy):
    """Arrays by name, each with an axis for the replicas of this process."""
    arrays = {"replicas": np.asarray(strategy.num_replicas_in_sync)}
    cases = {
        "shared": mapped(strategy, True),
        "double": mapped(strategy, True, dtype="float64"),
        "due": mapped(strategy, True, every=tf.constant(True)),
        "not_due": mapped(strategy, True, every=tf.constant(False)),
        "eager": mapped(strategy, True, graph=False),
        "packs": in_packs(strategy),
        **{f"muon/{version}": stepped(strategy, version, share_work=True) for version in KERAS_VERSIONS},
        "muon/accumulated": stepped(strategy, "tf_keras", share_work=True, accumulation_steps=STEPS),
        "shampoo": stepped(strategy, "tf_keras", share_work=True, **SHAMPOO),
    }
    for name, outcomes in cases.items():
        arrays.update({f"{name}/{index}": np.stack(of_replicas) for index, of_replicas in enumerate(outcomes)})
    return arrays


def in_packs(strategy):
    """`mapped`, by collectives of up to 100 numbers."""
    with mock.patch.object(sharing, "_PACK_BYTES", 400):
        return mapped(strategy, True)


def multi_worker_strategy(devices):
    """MultiWorkerMirroredStrategy over several CPUs of each process, where TensorFlow's takes the first."""
    of_cpus = collective_all_reduce_strategy.CollectiveAllReduceExtended

    def local_devices(self, cluster_resolver, worker_device):
        return tuple(f"{worker_device}/device:CPU:{index}" for index in range(devices)), "CPU"

    with mock.patch.object(of_cpus, "_initialize_local_devices", local_devices):
        return strategies.choose("auto")[0]


def main(directory, devices):
    devices = int(devices)
    cpus = [tf.config.LogicalDeviceConfiguration()] * devices
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], cpus)
    if "TF_CONFIG" not in os.environ:
        np.savez(os.path.join(directory, "worker0.npz"), **ends(strategies.choose("mirrored")[0]))
        return
    strategy = multi_worker_strategy(devices)
    index = parse_tf_config(os.environ["TF_CONFIG"])[1]
    np.savez(os.path.join(directory, f"worker{index}.npz"), **ends(strategy))
    # The first worker serves the cluster: it must not leave before the others are done.
    strategies.barrier(strategy)


if __name__ == "__main__":
    main(*sys.argv[1:])
