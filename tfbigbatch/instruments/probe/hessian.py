"""The loss on a probe as a function of a model's weights: gradient, Hessian times vector, and loss nearby."""

import numpy as np
import tensorflow as tf

from tfbigbatch.instruments.probe.loss import ProbeLoss
from tfbigbatch.instruments.probe.model import ProbeModel, dense, mean_over


class ProbeHessian:
    """The Hessian H of a compiled Keras model's loss on a probe, by its products with vectors; see `ProbeModel`.

    A product is the gradient of <gradient, vector>: a backward pass through the forward and the
    backward pass of each micro-batch. Vectors are float32 NumPy arrays of all n trainable weights,
    one variable after the other.

    Args:
      model: compiled, and trained for at least one step.
      micro_batches: what `micro_batches_of` gives.
      training: bool, the mode of the forward pass.
    """

    def __init__(self, model, micro_batches, training):
        self._micro_batches = micro_batches
        self._model = ProbeModel(model, training)
        self._loss = ProbeLoss(model, micro_batches, training)
        self._gradient = self._model.compiled(self._gradient_on_one_replica)
        self._product = self._model.compiled(self._product_on_one_replica)

    @property
    def size(self):
        """n."""
        return sum(self._sizes())

    def gradient(self):
        """(loss, gradient [n]) at the weights as they are."""
        loss, gradient = self._gradient(self._micro_batches)
        return loss.numpy().item(), gradient.numpy()

    def product(self, vector):
        """H vector, [n].

        Raises:
          LookupError: an operation of the model has no second derivative.
        """
        return self._product(self._micro_batches, tf.constant(vector, tf.float32)).numpy()

    def loss_at(self, change):
        """The loss at the weights plus `change` [n]."""
        variables = self._model.variables
        parts = np.split(change, np.cumsum(self._sizes())[:-1])
        return self._loss.at(
            variables,
            [
                tf.convert_to_tensor(variable) + tf.cast(part.reshape(variable.shape), variable.dtype)
                for variable, part in zip(variables, parts)
            ],
        )

    def _sizes(self):
        return [variable.shape.num_elements() for variable in self._model.variables]

    def _shapes(self):
        return [variable.shape for variable in self._model.variables]

    def _gradient_on_one_replica(self, micro_batches):
        def of_one(micro_batch):
            loss, gradients = self._model.loss_and_gradients(micro_batch)
            return [loss, *gradients]

        loss, *gradients = mean_over(micro_batches, of_one, [[], *self._shapes()])
        return loss, _joined(gradients)

    def _product_on_one_replica(self, micro_batches, vector):
        variables = self._model.variables
        parts = [tf.reshape(part, variable.shape) for part, variable in zip(tf.split(vector, self._sizes()), variables)]

        def of_one(micro_batch):
            with tf.GradientTape() as tape:
                _, gradients = self._model.loss_and_gradients(micro_batch)
                slope = tf.add_n([tf.reduce_sum(gradient * part) for gradient, part in zip(gradients, parts)])
            return dense(tape.gradient(slope, variables), variables)

        return _joined(mean_over(micro_batches, of_one, self._shapes()))


def _joined(tensors):
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], axis=0)
