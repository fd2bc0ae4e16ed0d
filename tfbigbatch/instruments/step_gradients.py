"""Norms of the training steps' own gradients, for the noise scale without an extra backward pass."""

from __future__ import annotations

import math
import typing
from collections.abc import Sequence
from typing import Any

import tensorflow as tf


class StepMoments(typing.NamedTuple):
    """Means over some steps: the micro-batches' |G_b|^2, the steps' |G_B|^2, and b and B in examples."""

    small_squared_norm: float
    large_squared_norm: float
    small_batch: float
    large_batch: float


class StepGradients:
    """Accumulates the gradient norms of training steps, in every replica.

    For a custom `train_step` of Keras 2 or 3: a micro-batch is a replica's batch, or a part of it with accumulation.
    Make it in the strategy's scope. It reads the gradients once per micro-batch and once per step. Replicas exchange
    nothing; their sums are reduced when they are read.

    Args:
      layers: number of trainable variables.
      noise: False if only `layer_norms` are needed: micro-batches then cost nothing.

    Attributes:
      variables: list of tf.Variables; put them in a checkpoint to keep the sums since the last reading.
    """

    def __init__(self, layers: int, noise: bool = True) -> None:
        self._noise = noise
        self._strategy = tf.distribute.get_strategy()
        on_read = tf.VariableSynchronization.ON_READ
        # Sums of |G_b|^2, micro-batches and their examples; of |G_B|^2 and steps.
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

    def add_micro_batch(self, gradients: Sequence[tf.Tensor | None], examples: Any) -> None:
        """Adds the gradients of one micro-batch; call it in a replica.

        Args:
          gradients: of the mean loss divided by the number of replicas, as in Keras; None for a variable without one.
          examples: number of examples in the micro-batch.
        """
        if not self._noise:
            return
        replicas = self._strategy.num_replicas_in_sync
        square = replicas**2 * tf.add_n(_squares(gradients))
        self._sums.assign_add(tf.stack([square, 1.0, tf.cast(examples, tf.float32), 0.0, 0.0]))

    def add_update(self, gradients: Sequence[tf.Tensor | None]) -> None:
        """Adds the gradients of an optimizer step; call it in a replica.

        Args:
          gradients: mean over the micro-batches, summed over replicas, one for each variable or None.
        """
        squares = _squares(gradients)
        if self._noise:
            fraction = 1.0 / self._strategy.num_replicas_in_sync
            self._sums.assign_add(tf.stack([0.0, 0.0, 0.0, fraction * tf.add_n(squares), fraction]))
        self._layers.assign(tf.stack(squares))

    def read(self) -> StepMoments | None:
        """Returns the means since the last reading and resets them; call it between steps, on every worker.

        Returns:
          StepMoments; None if there was no step.

        Raises:
          ValueError: made with noise=False.
        """
        if not self._noise:
            raise ValueError("StepGradients(noise=False) has the layers' norms only; make it with noise=True.")
        with self._strategy.scope():
            small, micro_batches, examples, large, updates = self._sums.read_value().numpy().tolist()
            self._sums.assign(tf.zeros([5]))
        if not updates:
            return None
        return StepMoments(small / micro_batches, large / updates, examples / micro_batches, examples / updates)

    def layer_norms(self) -> list[float]:
        """The norm of the last step's gradient for each variable; call it between steps."""
        with self._strategy.scope():
            squares = self._layers.read_value().numpy().tolist()
        return [math.sqrt(square) for square in squares]


def _squares(gradients: Sequence[tf.Tensor | None]) -> list[tf.Tensor]:
    return [
        # `l2_loss` needs one pass and no temporary tensor.
        tf.zeros([]) if gradient is None else 2.0 * tf.nn.l2_loss(tf.cast(gradient, tf.float32))
        for gradient in gradients
    ]
