"""Weighted metrics of the tasks: each a sum and a count, so that a mask excludes padding."""

from __future__ import annotations

import tensorflow as tf
import tf_keras


def classification_metrics() -> list[tf_keras.metrics.Metric]:
    """'cross_entropy' in nats and 'accuracy', from integer labels and logits."""
    return [_cross_entropy("cross_entropy"), tf_keras.metrics.SparseCategoricalAccuracy(name="accuracy")]


def token_metrics(prefix: str = "") -> list[tf_keras.metrics.Metric]:
    """'cross_entropy' in nats per token and 'perplexity', from integer labels and logits; `prefix` before the names."""
    cross_entropy = _cross_entropy(f"{prefix}cross_entropy")
    return [cross_entropy, Perplexity(cross_entropy, name=f"{prefix}perplexity")]


class Perplexity(tf_keras.metrics.Metric):
    """Perplexity: exp of the mean cross entropy per token, exact over batches, masks and replicas.

    Args:
      cross_entropy: a mean of nats per token, updated beside this metric: a second softmax over the vocabulary would
        cost as much again.
    """

    def __init__(self, cross_entropy: tf_keras.metrics.Mean, name: str = "perplexity") -> None:
        super().__init__(name=name)
        # A closure: Keras would track an attribute as a part of this metric.
        self._mean = lambda: tf.math.divide_no_nan(cross_entropy.total, cross_entropy.count)

    def update_state(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None) -> None:
        pass

    def result(self) -> tf.Tensor:
        return tf.exp(self._mean())


def _cross_entropy(name: str) -> tf_keras.metrics.Mean:
    return tf_keras.metrics.SparseCategoricalCrossentropy(name=name, from_logits=True)
