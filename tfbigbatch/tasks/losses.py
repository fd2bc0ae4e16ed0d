"""Training losses: cross entropy with label smoothing, over a batch or over the tokens under a mask."""

from __future__ import annotations

import tensorflow as tf
import tf_keras

from tfbigbatch.errors import InputError

OVER = ("sentences", "tokens")
"""What `SmoothedTokenCrossEntropy` divides its sum by."""


def classification_loss(label_smoothing: float = 0.0) -> tf_keras.losses.Loss:
    """The loss of a classifier, from integer labels and logits.

    Raises:
      ValueError: label_smoothing is not in [0, 1).
    """
    _check_label_smoothing("model.label_smoothing", label_smoothing)
    if label_smoothing:
        return SmoothedCrossEntropy(label_smoothing)
    return tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)


class SmoothedCrossEntropy(tf_keras.losses.Loss):
    """Cross entropy with label smoothing, from integer labels [n] and logits [n, classes].

    The target is 1 - label_smoothing for the label, and label_smoothing spread evenly over all classes (Szegedy et
    al. 2016, arXiv:1512.00567, section 7).
    """

    def __init__(self, label_smoothing: float) -> None:
        super().__init__(name="smoothed_cross_entropy")
        self._label_smoothing = label_smoothing

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        log_probabilities = tf.nn.log_softmax(y_pred)
        labels = tf.reshape(tf.cast(y_true, tf.int32), [-1])
        of_label = tf.gather(log_probabilities, labels, batch_dims=1)
        mean = tf.reduce_mean(log_probabilities, axis=-1)
        return -(1 - self._label_smoothing) * of_label - self._label_smoothing * mean


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
        _check_label_smoothing("label_smoothing", label_smoothing)
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


class MaskedMeanCrossEntropy(tf_keras.losses.Loss):
    """Mean cross entropy over the labels with non-zero weight; Keras' own loss divides by the number of all labels.

        loss = sum(weight * -log softmax(logits)[label]) / sum(weight), 0 where all weights are 0

    From integer labels [..., n], logits [..., n, classes] of any float type, and weights of the labels' shape.
    """

    def __call__(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None) -> tf.Tensor:
        labels, logits = _labels_and_logits(y_true, y_pred)
        nats = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        if sample_weight is None:
            return tf.reduce_mean(nats)
        weight = tf.reshape(tf.cast(sample_weight, tf.float32), tf.shape(nats))
        return tf.math.divide_no_nan(tf.reduce_sum(weight * nats), tf.reduce_sum(weight))


def smoothed_nats(labels: tf.Tensor, logits: tf.Tensor, label_smoothing: float) -> tf.Tensor:
    """Cross entropy of each token: float32 [...], from labels int32 [...] and logits float32 [..., vocabulary].

    `label_smoothing` is spread evenly over the vocabulary, the label itself included.
    """
    if not label_smoothing:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    vocabulary = logits.shape[-1]
    even = label_smoothing / vocabulary
    # One fused softmax and one gradient: over a vocabulary, each further pass costs as much as a layer.
    target = tf.one_hot(labels, vocabulary, on_value=1.0 - label_smoothing + even, off_value=even)
    return tf.nn.softmax_cross_entropy_with_logits(target, logits)


def _labels_and_logits(y_true: tf.Tensor, y_pred: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    logits = tf.cast(y_pred, tf.float32)
    return tf.reshape(tf.cast(y_true, tf.int32), tf.shape(logits)[:-1]), logits


def _check_label_smoothing(name: str, value: float) -> None:
    if not 0.0 <= value < 1.0:
        raise InputError(f"{name}={value}: expected 0 <= label_smoothing < 1.")
