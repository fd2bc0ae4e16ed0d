"""The loss and the metrics that all classifiers share."""

import tensorflow as tf
import tf_keras

from tfbigbatch.errors import InputError


class SmoothedCrossEntropy(tf_keras.losses.Loss):
    """Cross entropy against (1 - label_smoothing) of the label and the rest spread evenly over all classes.

    Szegedy et al. 2016 (arXiv:1512.00567), section 7. Of integer labels and logits.
    """

    def __init__(self, label_smoothing):
        super().__init__(name="smoothed_cross_entropy")
        self._label_smoothing = label_smoothing

    def call(self, y_true, y_pred):
        log_shares = tf.nn.log_softmax(y_pred)
        labels = tf.reshape(tf.cast(y_true, tf.int32), [-1])
        of_label = tf.gather(log_shares, labels, batch_dims=1)
        of_all = tf.reduce_mean(log_shares, axis=-1)
        return -(1 - self._label_smoothing) * of_label - self._label_smoothing * of_all


def loss(label_smoothing=0.0):
    """The loss that is trained, of integer labels and logits.

    Raises:
      ValueError: label_smoothing is not a share below 1.
    """
    if not 0.0 <= label_smoothing < 1.0:
        raise InputError(f"model.label_smoothing={label_smoothing}: expected 0 <= label_smoothing < 1.")
    if label_smoothing:
        return SmoothedCrossEntropy(label_smoothing)
    return tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def metrics():
    """Weighted metrics, each a sum and a count, so that a mask leaves padding out."""
    return [
        tf_keras.metrics.SparseCategoricalCrossentropy(name="cross_entropy", from_logits=True),
        tf_keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
    ]
