"""The norms of a training step's own gradients: what the noise scale needs, with no extra backward pass."""

import math
import typing

import tensorflow as tf


class StepMoments(typing.NamedTuple):
    """Means over some updates: of the micro-batches' |G_b|^2, of the updates' |G_B|^2, and b and B in examples."""

    small_squared_norm: float
    large_squared_norm: float
    small_batch: float
    large_batch: float


class StepGradients:
    """Takes the gradients of a training step where they pass by, in every replica, and adds up their norms.

    For a `train_step` of one's own, of either Keras: a micro-batch is a replica's batch, or a part of
    it where the step accumulates. Make it within the strategy's scope. It costs the reading of the
    gradients once a micro-batch and once an update, and exchanges nothing between replicas: the sums
    are added up when they are read.

    Args:
      layers: trainable variables, of which the step has the gradients.
      noise: False where only `layer_norms` are wanted: then the micro-batches cost nothing.

    Attributes:
      variables: list of tf.Variables; in a checkpoint they keep what was added up since the last reading.
    """

    def __init__(self, layers, noise=True):
        self._noise = noise
        self._strategy = tf.distribute.get_strategy()
        on_read = tf.VariableSynchronization.ON_READ
        # |G_b|^2, micro-batches, their examples; |G_B|^2, updates.
        self._sums = tf.Variable(
            tf.zeros([5]),
            trainable=False,
            synchronization=on_read,
            aggregation=tf.VariableAggregation.SUM,
            name="gradient_norms",
        )
        self._layers = tf.Variable(
            tf.zeros([layers]),
            trainable=False,
            synchronization=on_read,
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            name="layer_gradient_norms",
        )
        self.variables = [self._sums, self._layers]

    def add_micro_batch(self, gradients, examples):
        """In a replica: takes the gradients of one micro-batch's loss, as Keras gives them.

        Args:
          gradients: list of tensors, None for a variable without one: of the mean loss divided by the replicas, as
            Keras divides it.
          examples: in the micro-batch.
        """
        if not self._noise:
            return
        replicas = self._strategy.num_replicas_in_sync
        square = replicas**2 * tf.add_n(_squares(gradients))
        self._sums.assign_add(tf.stack([square, 1.0, tf.cast(examples, tf.float32), 0.0, 0.0]))

    def add_update(self, gradients):
        """In a replica: takes the gradients of an update, the mean over its micro-batches and summed over replicas.

        Args:
          gradients: list of tensors, one for each of the variables; None where it has none.
        """
        squares = _squares(gradients)
        if self._noise:
            share = 1.0 / self._strategy.num_replicas_in_sync
            self._sums.assign_add(tf.stack([0.0, 0.0, 0.0, share * tf.add_n(squares), share]))
        self._layers.assign(tf.stack(squares))

    def read(self):
        """Between updates, on every worker: the means since the last reading, which then begin anew.

        Returns:
          StepMoments; None where no update was made.

        Raises:
          ValueError: it was made with noise=False.
        """
        if not self._noise:
            raise ValueError("StepGradients(noise=False) keeps the layers' norms alone; make it with noise=True.")
        with self._strategy.scope():
            small, micro_batches, examples, large, updates = self._sums.read_value().numpy().tolist()
            self._sums.assign(tf.zeros([5]))
        if not updates:
            return None
        return StepMoments(small / micro_batches, large / updates, examples / micro_batches, examples / updates)

    def layer_norms(self):
        """Between updates: the norm of the last update's gradient for each variable, in their order."""
        with self._strategy.scope():
            squares = self._layers.read_value().numpy().tolist()
        return [math.sqrt(square) for square in squares]


def _squares(gradients):
    return [
        # The kernel behind `l2_loss` needs one pass, and no second tensor.
        tf.zeros([]) if gradient is None else 2.0 * tf.nn.l2_loss(tf.cast(gradient, tf.float32))
        for gradient in gradients
    ]
