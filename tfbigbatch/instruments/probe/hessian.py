"""Gradient, Hessian-vector products and nearby losses of a model on a probe."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfbigbatch.instruments.probe.model import ProbeModel, dense, mean_over, untouched


class ProbeHessian:
    """Products with the Hessian H of a compiled Keras model's loss on a probe; see `ProbeModel`.

    A product is the gradient of <gradient, vector>: a backward pass through the forward and the
    backward pass of each micro-batch. Vectors are float32 NumPy arrays of all n trainable weights,
    one variable after the other.

    Args:
      model: compiled, and trained for at least one step.
      micro_batches: from `micro_batches_of`.
    """

    def __init__(self, model: Any, micro_batches: Any) -> None:
        self._micro_batches = micro_batches
        self._model = ProbeModel(model)
        self._strategy = model.distribute_strategy
        self._loss = self._model.compiled(self._loss_on_one_replica)
        self._gradient = self._model.compiled(self._gradient_on_one_replica)
        self._product = self._model.compiled(self._product_on_one_replica)

    @property
    def size(self) -> int:
        """n, the number of trainable weights."""
        return sum(self._sizes())

    def gradient(self) -> tuple[float, np.ndarray]:
        """(loss, gradient [n]) at the current weights."""
        loss, gradient = self._gradient(self._micro_batches)
        return loss.numpy().item(), gradient.numpy()

    def product(self, vector: np.ndarray) -> np.ndarray:
        """H vector, [n].

        Raises:
          LookupError: an operation of the model has no second derivative.
        """
        return self._product(self._micro_batches, tf.constant(vector, tf.float32)).numpy()

    def loss_at(self, change: np.ndarray) -> float:
        """The loss at the weights plus `change` [n]."""
        variables = self._model.variables
        with self._strategy.scope(), untouched(variables):
            for variable, part in zip(variables, np.split(change, np.cumsum(self._sizes())[:-1])):
                part = tf.cast(part.reshape(variable.shape), variable.dtype)
                variable.assign(tf.convert_to_tensor(variable) + part)
            return self._loss(self._micro_batches).numpy().item()

    def _sizes(self) -> list[int]:
        return [variable.shape.num_elements() for variable in self._model.variables]

    def _shapes(self) -> list[tf.TensorShape]:
        return [variable.shape for variable in self._model.variables]

    def _loss_on_one_replica(self, micro_batches: Any) -> tf.Tensor:
        return mean_over(micro_batches, lambda micro_batch: [self._model.loss(micro_batch)], [[]])[0]

    def _gradient_on_one_replica(self, micro_batches: Any) -> tuple[tf.Tensor, tf.Tensor]:
        def of_one(micro_batch: Any) -> list[tf.Tensor]:
            loss, gradients = self._model.loss_and_gradients(micro_batch)
            return [loss, *gradients]

        loss, *gradients = mean_over(micro_batches, of_one, [[], *self._shapes()])
        return loss, _joined(gradients)

    def _product_on_one_replica(self, micro_batches: Any, vector: tf.Tensor) -> tf.Tensor:
        variables = self._model.variables
        parts = [tf.reshape(part, variable.shape) for part, variable in zip(tf.split(vector, self._sizes()), variables)]

        def of_one(micro_batch: Any) -> list[tf.Tensor]:
            with tf.GradientTape() as tape:
                _, gradients = self._model.loss_and_gradients(micro_batch)
                slope = tf.add_n([tf.reduce_sum(gradient * part) for gradient, part in zip(gradients, parts)])
            return dense(tape.gradient(slope, variables), variables)

        return _joined(mean_over(micro_batches, of_one, self._shapes()))


def _joined(tensors: list[tf.Tensor]) -> tf.Tensor:
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], axis=0)
