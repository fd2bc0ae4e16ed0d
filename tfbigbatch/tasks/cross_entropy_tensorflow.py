"""Cross entropy over a large vocabulary on TensorFlow, faster on a CPU than TensorFlow's own kernel."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfbigbatch.optimizers.tensorflow import compiled_by_xla

# float32 has probabilities to 1e-38; above this one their logarithm is exact to rounding.
_TINY = 1e-30


def smoothed_nats(labels: tf.Tensor, logits: tf.Tensor, label_smoothing: float) -> tf.Tensor:
    """`losses.smoothed_nats` of int32 labels [...] and float32 logits [..., vocabulary].

    On a CPU TensorFlow's kernel for it takes as long as the three matrix products of an output layer. Here it is the
    vectorised kernel of the softmax, and few passes over the vocabulary beside it, to rounding.
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
        return _on_cpu(flat, tf.reshape(labels, [-1]), label_smoothing)

    nats = tf.reshape(of_logits(tf.reshape(logits, [-1, vocabulary])), tf.shape(labels))
    return tf.ensure_shape(nats, labels.shape)


def _on_cpu(logits: tf.Tensor, labels: tf.Tensor, label_smoothing: float) -> tuple[tf.Tensor, Any]:
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
