"""The loss of a translation: cross entropy with label smoothing over the tokens that count."""

import tensorflow as tf
import tf_keras

from tfbigbatch.errors import InputError

OVER = ("sentences", "tokens")


class SmoothedTokenCrossEntropy(tf_keras.losses.Loss):
    """Cross entropy against (1 - label_smoothing) of the token and the rest spread evenly over the vocabulary.

        loss = sum(weight * nats) / n                 over 'sentences'
        loss = sum(weight * nats) / sum(weight)       over 'tokens', 0 where all weights are 0

    Szegedy et al. 2016 (arXiv:1512.00567), section 7. MLPerf's GNMT divides the sum by the sentences of a batch
    (NVIDIA's `Seq2SeqTrainer.iterate`), with 0.1 of smoothing, padding left out: the default here. It is also the
    one that accumulation and replicas do not change: each takes the mean over its own sentences, of which all have as
    many. Over tokens, a replica with fewer of them gives each more weight. Rates of Adam, LAMB and LARS are nearly the
    same for both; those of SGD, and a clip of the norm, are not: a sentence has some 25 tokens.

    Of integer labels [n, T], logits [n, T, vocabulary] of any float, and weights [n, T]: 1 for tokens, 0 for padding.

    Args:
      label_smoothing: share, 0 or more and below 1.
      over: 'sentences' or 'tokens'.

    Raises:
      ValueError: either is something else.
    """

    def __init__(self, label_smoothing=0.1, over="sentences", name="smoothed_nats"):
        super().__init__(name=name)
        if not 0.0 <= label_smoothing < 1.0:
            raise InputError(f"label_smoothing={label_smoothing}: expected 0 <= label_smoothing < 1.")
        if over not in OVER:
            raise InputError(f"over={over!r}: expected one of {', '.join(OVER)}.")
        self._label_smoothing, self._over = label_smoothing, over

    def __call__(self, y_true, y_pred, sample_weight=None):
        y_pred = tf.cast(y_pred, tf.float32)
        labels = tf.reshape(tf.cast(y_true, tf.int32), tf.shape(y_pred)[:-1])
        nats = smoothed_nats(labels, y_pred, self._label_smoothing)
        weight = tf.ones_like(nats) if sample_weight is None else tf.reshape(sample_weight, tf.shape(nats))
        weight = tf.cast(weight, tf.float32)
        divisor = tf.reduce_sum(weight) if self._over == "tokens" else tf.cast(tf.shape(nats)[0], tf.float32)
        return tf.math.divide_no_nan(tf.reduce_sum(weight * nats), divisor)


def smoothed_nats(labels, logits, label_smoothing):
    """Cross entropy of each token.

    Args:
      labels: int32 [...].
      logits: float32 [..., vocabulary].
      label_smoothing: share that is spread evenly over the vocabulary, the label's own entry with it.

    Returns:
      float32 [...].
    """
    if not label_smoothing:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    vocabulary = logits.shape[-1]
    even = label_smoothing / vocabulary
    # One fused softmax and one gradient: over a vocabulary, each further pass costs as much as a layer.
    shares = tf.one_hot(labels, vocabulary, on_value=1.0 - label_smoothing + even, off_value=even)
    return tf.nn.softmax_cross_entropy_with_logits(shares, logits)
