"""Cross entropy over the labels that count, as language models of masked words have it."""

import tensorflow as tf
import tf_keras


class MaskedMeanCrossEntropy(tf_keras.losses.Loss):
    """The mean over the labels whose weight is not 0; Keras' own would divide by all places.

    loss = sum(weight * -log softmax(logits)[label]) / sum(weight), 0 where all weights are 0

    Of integer labels [..., places], logits [..., places, classes] of any float, and weights as the labels.
    """

    def __call__(self, y_true, y_pred, sample_weight=None):
        y_pred = tf.cast(y_pred, tf.float32)
        labels = tf.reshape(tf.cast(y_true, tf.int32), tf.shape(y_pred)[:-1])
        nats = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, y_pred)
        if sample_weight is None:
            return tf.reduce_mean(nats)
        weight = tf.reshape(tf.cast(sample_weight, tf.float32), tf.shape(nats))
        return tf.math.divide_no_nan(tf.reduce_sum(weight * nats), tf.reduce_sum(weight))
