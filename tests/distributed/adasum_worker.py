"""What Adasum makes of gradients that every replica has of its own, under any strategy.

`python -m tests.distributed.adasum_worker DIRECTORY` is one worker of TF_CONFIG's cluster and leaves
worker0.npz, worker1.npz and so on. With a number of replicas after DIRECTORY it is one process, of as many
logical CPUs, and leaves worker0.npz.
"""

import os
import sys

import numpy as np
import tensorflow as tf

from tests.helpers.keras_versions import KERAS, make, variables
from tfbigbatch.cluster.tf_config import parse_tf_config
from tfbigbatch.optimizers.adasum import exchange
from tfbigbatch.training import strategy as strategies

SHAPES = {"a": (3, 5), "b": (7,), "c": (1,), "d": (2, 2, 2), "e": ()}
STEPS = 100
# Name of a case: what is wrapped, and how. The versions take turns; tests/optimizers has all of both on one machine.
CASES = {
    "gradients": {"keras_version": "tf_keras", "optimizer": "SGD", "learning_rate": 1.0, "combine": "gradients"},
    "updates": {"keras_version": "keras3", "optimizer": "SGD", "learning_rate": 1.0, "combine": "updates"},
    "groups": {
        "keras_version": "keras3",
        "optimizer": "SGD",
        "learning_rate": 1.0,
        "combine": "gradients",
        "group_size": 2,
    },
    "groups_of_updates": {
        "keras_version": "tf_keras",
        "optimizer": "SGD",
        "learning_rate": 1.0,
        "combine": "updates",
        "group_size": 2,
    },
}
LONG_CASES = {
    "momentum": {
        "keras_version": "keras3",
        "optimizer": "SGD",
        "learning_rate": 0.01,
        "momentum": 0.9,
        "combine": "gradients",
    },
    "adam": {"keras_version": "tf_keras", "optimizer": "Adam", "learning_rate": 0.01, "combine": "updates"},
    "lamb": {
        "keras_version": "tf_keras",
        "optimizer": "LAMB",
        "learning_rate": 0.01,
        "global_clipnorm": 1.0,
        "combine": "updates",
    },
}


def gradients(replicas, seed=0):
    """Dictionary of name to float32 [replicas, ...]: the replicas' gradients have something in common."""
    random = np.random.RandomState(seed)
    return {
        name: (random.normal(size=shape) + random.normal(size=(replicas, *shape))).astype("float32")
        for name, shape in SHAPES.items()
    }


def adasum(keras_version, *, optimizer, combine, group_size=1, **arguments):
    """Adasum around one of Keras' optimizers or of ours."""
    keras = KERAS[keras_version].optimizers
    inner = (
        make(keras_version, optimizer, **arguments) if optimizer == "LAMB" else getattr(keras, optimizer)(**arguments)
    )
    return make(keras_version, "Adasum", optimizer=inner, combine=combine, group_size=group_size)


def updated(strategy, keras_version, steps=1, **case):
    """(variables, optimizer) after one update from zero, or several from one: the trust ratio needs a norm."""
    replicas = strategy.num_replicas_in_sync
    with strategy.scope():
        start = {name: np.full(shape, float(steps > 1)) for name, shape in SHAPES.items()}
        weights = variables(keras_version, start)
        rule = adasum(keras_version, **case)
        rule.build(weights)

    @tf.function
    def step(turn, values):
        def replica():
            index = tf.distribute.get_replica_context().replica_id_in_sync_group
            share = tf.where(index == turn, 1.5, 1.0) / replicas
            rule.apply_gradients([(share * value[index], weight) for value, weight in zip(values, weights)])

        strategy.run(replica)

    values = [tf.constant(value) for value in gradients(replicas).values()]
    for number in range(steps):
        # Of several, each is another replica's turn to have half as much again.
        step(tf.constant(number % replicas if steps > 1 else replicas), values)
    return weights, rule


def combined_bfloat16(strategy):
    """What the exchange alone makes of bfloat16, in float32."""
    values = [tf.constant(value, tf.bfloat16) for value in gradients(strategy.num_replicas_in_sync).values()]

    @tf.function
    def everywhere():
        def replica():
            index = tf.distribute.get_replica_context().replica_id_in_sync_group
            return exchange.combined([value[index] for value in values])

        return strategy.run(replica)

    return [copies(strategy, outcome)[0] for outcome in everywhere()]


def ends(strategy):
    """Arrays by name after all cases: "case/0" and so on."""
    arrays = {"replicas": np.asarray(strategy.num_replicas_in_sync)}
    arrays.update({f"bfloat16/{i}": value for i, value in enumerate(combined_bfloat16(strategy))})
    for label, case in CASES.items():
        if strategy.num_replicas_in_sync % case.get("group_size", 1) == 0:
            weights, _ = updated(strategy, **case)
            arrays.update({f"{label}/{i}": copies(strategy, each)[0] for i, each in enumerate(weights)})
    for label, case in LONG_CASES.items():
        weights, _ = updated(strategy, steps=STEPS, **case)
        arrays.update({f"{label}/{i}": np.stack(copies(strategy, each)) for i, each in enumerate(weights)})
    return arrays


def copies(strategy, variable):
    """What each replica of this process has, in float32."""
    variable = getattr(variable, "value", variable) if not isinstance(variable, tf.Variable) else variable
    return [tf.cast(copy, tf.float32).numpy() for copy in strategy.experimental_local_results(variable)]


def main(directory, replicas=None):
    if replicas:
        cpus = [tf.config.LogicalDeviceConfiguration()] * int(replicas)
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], cpus)
        np.savez(os.path.join(directory, "worker0.npz"), **ends(strategies.choose("mirrored")[0]))
        return
    strategy, _ = strategies.choose("auto")
    index = parse_tf_config(os.environ["TF_CONFIG"])[1]
    np.savez(os.path.join(directory, f"worker{index}.npz"), **ends(strategy))
    # The first worker serves the cluster: it must not leave before the others are done.
    strategies.barrier(strategy)


if __name__ == "__main__":
    main(*sys.argv[1:])
