"""Steps in which the replicas share their matrices, under any strategy.

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

WEIGHTS = {"hidden": (6, 8), "conv": (3, 3, 2, 4), "head": (8, 3), "bias": (3,)}
STEPS = 3


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
        **{f"muon/{version}": stepped(strategy, version, share_work=True) for version in KERAS_VERSIONS},
        "muon/accumulated": stepped(strategy, "tf_keras", share_work=True, accumulation_steps=STEPS),
        "shampoo": stepped(strategy, "tf_keras", share_work=True, **SHAMPOO),
        # By collectives of up to 100 numbers.
        "packs": in_packs(strategy),
    }
    for name, outcomes in cases.items():
        arrays.update({f"{name}/{index}": np.stack(of_replicas) for index, of_replicas in enumerate(outcomes)})
    return arrays


def in_packs(strategy):
    with mock.patch.object(sharing, "_PACK_BYTES", 400):
        return stepped(strategy, "tf_keras", share_work=True)


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
