"""A few steps of an optimizer under any strategy, on gradients that differ by replica."""

import numpy as np
import tensorflow as tf

from tests.helpers.keras_versions import make, variables

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
