"""Perplexity: how many words a language model is, on average, in doubt between."""

import tensorflow as tf
import tf_keras


class Perplexity(tf_keras.metrics.Metric):
    """exp of a mean of nats a token; as that is a sum and a count, it is exact over batches, masks and replicas.

    Args:
      cross_entropy: the tf_keras.metrics.Mean-like metric of nats a token, which is updated beside this one:
        another softmax over the vocabulary would cost as much again.
    """

    def __init__(self, cross_entropy, name="perplexity"):
        super().__init__(name=name)
        # In a closure: as an attribute Keras would take it for a part of this metric.
        self._mean = lambda: tf.math.divide_no_nan(cross_entropy.total, cross_entropy.count)

    def update_state(self, y_true, y_pred, sample_weight=None):
        pass

    def result(self):
        return tf.exp(self._mean())
