"""LocalSteps, or Adasum, on a quadratic of each replica's own, and LocalSteps in NumPy."""

import numpy as np
import tensorflow as tf

from tests.helpers.keras_versions import KERAS, make
from tests.helpers.keras_versions import variables as make_variables
from tests.helpers.optimizers_in_numpy import local_steps_run

REPLICAS = 4
# Each replica's loss is a quadratic of its own.
CURVATURE = np.random.RandomState(0).uniform(0.5, 1.5, size=(REPLICAS, 3))
MINIMUM = np.random.RandomState(1).normal(size=(REPLICAS, 3))
NUMBERS = {"nesterov": {"outer_learning_rate": 0.7, "outer_momentum": 0.9}}


def learning_rate(step):
    return 0.1 / (1 + step)


class Quadratic:
    """A variable of each replica, under its own loss, and an optimizer that trains it."""

    def __init__(self, strategy, keras_version, options, name="LocalSteps"):
        self.strategy = strategy
        keras = KERAS[keras_version]
        with self.strategy.scope():
            [self.weight] = make_variables(keras_version, {"kernel": np.ones(3)})
            inner = keras.optimizers.SGD(0.1, momentum=0.9)
            self.optimizer = make(keras_version, name, optimizer=inner, **options)
            self.optimizer.build([self.weight])
        self.step = tf.function(self._step)

    def _step(self):
        curvature, minimum = tf.constant(CURVATURE, tf.float32), tf.constant(MINIMUM, tf.float32)

        def replica():
            index = tf.distribute.get_replica_context().replica_id_in_sync_group
            gradient = curvature[index] * (tf.convert_to_tensor(self.weight) - minimum[index])
            gradient /= self.strategy.num_replicas_in_sync
            self.optimizer.apply_gradients([(gradient, self.weight)])

        self.strategy.run(replica)

    def train(self, first, last):
        for step in range(first, last):
            self.optimizer.learning_rate = learning_rate(step)
            self.step()
        return self.weights()

    def weights(self):
        """[replicas, 3]."""
        variable = self.weight if isinstance(self.weight, tf.Variable) else self.weight.value
        return np.array([np.array(copy) for copy in self.strategy.experimental_local_results(variable)])


def expected(steps, options, replicas=REPLICAS, **more):
    return local_steps_run(
        np.ones(3),
        lambda weights, replica, step: CURVATURE[replica] * (weights - MINIMUM[replica]),
        replicas=replicas,
        steps=steps,
        learning_rate=learning_rate,
        momentum=0.9,
        **{**NUMBERS.get(options.get("outer"), {}), **options},
        **more,
    )
