"""Local steps in real processes, and the bytes that they send.

`python -m tests.distributed.local_steps_worker DIRECTORY CASE...` is one worker of TF_CONFIG's cluster and leaves
worker0.npz, worker1.npz and so on.
"""

import os
import sys

import numpy as np
import tensorflow as tf

from tests.helpers.keras_versions import KERAS, make, variables
from tfbigbatch.cluster.tf_config import parse_tf_config
from tfbigbatch.training import strategy as strategies

STEPS = 8
# Name of a case: the Keras, and LocalSteps' arguments. The versions take turns.
CASES = {
    "average": ("tf_keras", {"every": 3}),
    "nesterov": ("keras3", {"every": 2, "outer": "nesterov"}),
    "adasum": ("tf_keras", {"every": 2, "outer": "adasum"}),
    "delayed": ("keras3", {"every": 3, "delay": 1, "outer": "nesterov"}),
    "groups": ("tf_keras", {"every": 3, "group_size": 2}),
    "post_local": ("keras3", {"every": 2, "data_parallel_steps": 4}),
}
SIZE = 3
# Of the variable whose bytes are counted: 4 MB.
LARGE = 2**20
EVERY, COUNTED_STEPS = 8, 16


def curvature(replicas):
    return np.random.RandomState(0).uniform(0.5, 1.5, size=(replicas, SIZE))


def minimum(replicas):
    return np.random.RandomState(1).normal(size=(replicas, SIZE))


def step_of(strategy, optimizer, weight, gradient):
    """A traced step in which each replica has `gradient(weight, its number)`, of its part of the loss."""

    @tf.function
    def step():
        def replica():
            index = tf.distribute.get_replica_context().replica_id_in_sync_group
            own = gradient(tf.convert_to_tensor(weight), index) / strategy.num_replicas_in_sync
            optimizer.apply_gradients([(own, weight)])

        strategy.run(replica)

    return step


def trained(strategy, keras_version, options):
    """This process's replicas' weights after each step, and after `synchronize`: [STEPS + 1, replicas here, SIZE]."""
    replicas = strategy.num_replicas_in_sync
    with strategy.scope():
        [weight] = variables(keras_version, {"kernel": np.ones(SIZE)})
        inner = KERAS[keras_version].optimizers.SGD(0.1, momentum=0.9)
        optimizer = make(keras_version, "LocalSteps", optimizer=inner, **options)
        optimizer.build([weight])
    scale, middle = tf.constant(curvature(replicas), tf.float32), tf.constant(minimum(replicas), tf.float32)
    step = step_of(strategy, optimizer, weight, lambda value, index: scale[index] * (value - middle[index]))
    tensor = weight if isinstance(weight, tf.Variable) else weight.value
    found = []
    for _ in range(STEPS):
        step()
        found.append([copy.numpy() for copy in strategy.experimental_local_results(tensor)])
    optimizer.synchronize()
    found.append([copy.numpy() for copy in strategy.experimental_local_results(tensor)])
    return np.array(found)


def bytes_sent(strategy, options):
    """Bytes on loopback in COUNTED_STEPS steps of a large variable; None in `options`: the optimizer alone."""
    with strategy.scope():
        [weight] = variables("tf_keras", {"kernel": np.zeros(LARGE)})
        optimizer = KERAS["tf_keras"].optimizers.SGD(0.1)
        if options is not None:
            optimizer = make("tf_keras", "LocalSteps", optimizer=optimizer, **options)
        optimizer.build([weight])
    step = step_of(strategy, optimizer, weight, lambda value, index: value + 1.0)
    step()
    for _ in range(EVERY - 1):
        step()
    strategies.barrier(strategy)
    before = _received()
    for _ in range(COUNTED_STEPS):
        step()
    strategies.barrier(strategy)
    return _received() - before


def _received():
    """Bytes that loopback has carried."""
    with open("/proc/net/dev") as lines:
        return next(int(line.split(":")[1].split()[0]) for line in lines if line.strip().startswith("lo:"))


def main(directory, *cases):
    strategy, _ = strategies.choose("auto")
    replicas, index = strategy.num_replicas_in_sync, parse_tf_config(os.environ["TF_CONFIG"])[1]
    arrays = {"replicas": np.array(replicas)}
    for name in cases:
        keras_version, options = CASES[name]
        arrays[name] = trained(strategy, keras_version, options)
    for name, options in (("data_parallel", None), ("local", {"every": EVERY}), ("late", {"every": EVERY, "delay": 1})):
        arrays[f"bytes/{name}"] = np.array(bytes_sent(strategy, options))
    np.savez(os.path.join(directory, f"worker{index}.npz"), **arrays)
    # The first worker serves the cluster: it must not leave before the others are done.
    strategies.barrier(strategy)


if __name__ == "__main__":
    main(*sys.argv[1:])
