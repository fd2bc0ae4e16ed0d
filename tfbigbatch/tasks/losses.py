"""Losses and weighted metrics of the tasks: each a sum and a count, so that a mask excludes padding."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers.tensorflow import compiled_by_xla

# float32 has probabilities to 1e-38; above this one their logarithm is exact to rounding.
_TINY = 1e-30
OVER = ("sentences", "tokens")
"""The units that `SmoothedTokenCrossEntropy` divides its sum by."""


def classification_loss(label_smoothing: float = 0.0) -> tf_keras.losses.Loss:
    """The loss of a classifier, from integer labels and logits.

    Raises:
      ValueError: label_smoothing is not in [0, 1).
    """
    _check_label_smoothing(label_smoothing)
    if label_smoothing:
        return SmoothedCrossEntropy(label_smoothing)
    return tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _check_label_smoothing(value: float) -> None:
    if not 0.0 <= value < 1.0:
        raise InputError(f"model.label_smoothing={value}: expected 0 <= label_smoothing < 1.")


class SmoothedTokenCrossEntropy(tf_keras.losses.Loss):
    """Cross entropy of tokens with label smoothing (Szegedy et al. 2016, arXiv:1512.00567, section 7).

        loss = sum(weight * nats) / n                 over 'sentences'
        loss = sum(weight * nats) / sum(weight)       over 'tokens', 0 where all weights are 0

    From integer labels [n, T], logits [n, T, vocabulary] of any float type, and weights [n, T]: 1 for tokens, 0 for
    padding.

    MLPerf's GNMT divides by the sentences of a batch (NVIDIA's `Seq2SeqTrainer.iterate`), with label_smoothing=0.1
    and padding left out: the default here. It does not depend on accumulation or on the number of replicas, as each
    takes the mean over its own sentences and all have the same number of them. Over tokens, a replica with fewer
    tokens gives each more weight. The learning rates of Adam, LAMB and LARS are nearly the same for both; those of
    SGD, and a clipping norm, are not: a sentence has about 25 tokens.

    Args:
      label_smoothing: in [0, 1).
      over: 'sentences' or 'tokens'.

    Raises:
      ValueError: an argument is out of range.
    """

    def __init__(self, label_smoothing: float = 0.1, over: str = "sentences", name: str = "smoothed_nats") -> None:
        super().__init__(name=name)
        _check_label_smoothing(label_smoothing)
        if over not in OVER:
            raise InputError(f"over={over!r}: expected one of {', '.join(OVER)}.")
        self._label_smoothing, self._over = label_smoothing, over

    def __call__(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None) -> tf.Tensor:
        labels, logits = _labels_and_logits(y_true, y_pred)
        nats = smoothed_nats(labels, logits, self._label_smoothing)
        weight = tf.ones_like(nats) if sample_weight is None else tf.reshape(sample_weight, tf.shape(nats))
        weight = tf.cast(weight, tf.float32)
        divisor = tf.reduce_sum(weight) if self._over == "tokens" else tf.cast(tf.shape(nats)[0], tf.float32)
        return tf.math.divide_no_nan(tf.reduce_sum(weight * nats), divisor)


class SmoothedCrossEntropy(tf_keras.losses.Loss):
    """Keras' SparseCategoricalCrossentropy of logits, with label smoothing, and faster for a large vocabulary."""

    def __init__(self, label_smoothing: float = 0.0) -> None:
        super().__init__(name="cross_entropy")
        self._label_smoothing = label_smoothing

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        return smoothed_nats(*_labels_and_logits(y_true, y_pred), self._label_smoothing)


def smoothed_nats(labels: tf.Tensor, logits: tf.Tensor, label_smoothing: float = 0.0) -> tf.Tensor:
    """Cross entropy of each token: without smoothing -log softmax(logits)[label].

    On a CPU TensorFlow's kernel for it takes as long as the three matrix products of an output layer. Here it is the
    vectorised kernel of the softmax, and few passes over the vocabulary beside it, to rounding.

    Args:
      labels: int32 [...], below the vocabulary's size.
      logits: float32 [..., vocabulary].
      label_smoothing: the part of the target that is spread evenly over the vocabulary, the label itself included.

    Returns:
      float32 [...].
    """
    vocabulary = logits.shape[-1]
    # A GPU and XLA have fast kernels.
    if compiled_by_xla() or tf.config.list_logical_devices("GPU"):
        if not label_smoothing:
            return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        even = label_smoothing / vocabulary
        # One fused softmax and one gradient: over a vocabulary, each further pass costs as much as a layer.
        target = tf.one_hot(labels, vocabulary, on_value=1.0 - label_smoothing + even, off_value=even)
        return tf.nn.softmax_cross_entropy_with_logits(target, logits)

    @tf.custom_gradient
    def of_logits(flat: tf.Tensor) -> tuple[tf.Tensor, Any]:
        return _cross_entropy_on_cpu(flat, tf.reshape(labels, [-1]), label_smoothing)

    return tf.reshape(of_logits(tf.reshape(logits, [-1, vocabulary])), tf.shape(labels))


def _cross_entropy_on_cpu(logits: tf.Tensor, labels: tf.Tensor, label_smoothing: float) -> tuple[tf.Tensor, Any]:
    """Float32 [n] from float32 [n, vocabulary] and int32 [n], and the function that gives its gradient."""
    probabilities = tf.nn.softmax(logits)
    of_label = tf.gather(probabilities, labels, batch_dims=1)
    logit = tf.gather(logits, labels, batch_dims=1)

    def where_one_is_tiny() -> tf.Tensor:
        # The largest probability is 1 / sum(exp(logits - max)), and never tiny.
        return tf.reduce_max(logits, axis=-1) - logit - tf.math.log(tf.reduce_max(probabilities, axis=-1))

    # NaN goes the second way, and stays.
    nats = tf.cond(tf.reduce_all(of_label > _TINY), lambda: -tf.math.log(of_label), where_one_is_tiny)
    if label_smoothing:
        # logit + nats is the logarithm of the softmax's divisor.
        nats += label_smoothing * (logit - tf.reduce_mean(logits, axis=-1))

    def gradient(upstream: tf.Tensor) -> tf.Tensor:
        beside = probabilities - label_smoothing / logits.shape[-1] if label_smoothing else probabilities
        places = tf.stack([tf.range(tf.shape(labels)[0]), labels], axis=-1)
        of_labels = (1.0 - label_smoothing) * upstream
        return tf.tensor_scatter_nd_sub(beside * upstream[:, tf.newaxis], places, of_labels)

    return nats, gradient


def _labels_and_logits(y_true: tf.Tensor, y_pred: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    logits = tf.cast(y_pred, tf.float32)
    return tf.reshape(tf.cast(y_true, tf.int32), tf.shape(logits)[:-1]), logits


def classification_metrics() -> list[tf_keras.metrics.Metric]:
    """'cross_entropy' in nats and 'accuracy', from integer labels and logits."""
    nats = tf_keras.metrics.SparseCategoricalCrossentropy(name="cross_entropy", from_logits=True)
    return [nats, tf_keras.metrics.SparseCategoricalAccuracy(name="accuracy")]


def token_metrics(prefix: str = "") -> list[tf_keras.metrics.Metric]:
    """'cross_entropy' in nats per token and 'perplexity', from integer labels and logits; `prefix` before the names."""
    nats = tf_keras.metrics.SparseCategoricalCrossentropy(name=f"{prefix}cross_entropy", from_logits=True)
    return [nats, Perplexity(nats, name=f"{prefix}perplexity")]


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
