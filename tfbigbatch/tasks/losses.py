"""Losses and metrics of the tasks, from integer labels and logits.

Every metric is a sum and a count, so that a mask excludes padding, and parts of a batch add up over replicas. A loss is
the mean of a replica's own examples; as all of Keras' losses, under a strategy it is divided by the replicas, so that
their gradients are to be added.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers.tensorflow import compiled_by_xla

# float32 has probabilities to 1e-38; above this one their logarithm is exact to rounding.
_TINY = 1e-30
OVER = ("sentences", "tokens")
"""The units that `SmoothedTokenCrossEntropy` divides its sum by."""


def smoothed_nats(labels: Any, logits: Any, label_smoothing: float = 0.0) -> Any:
    """Cross entropy of each token: without smoothing -log softmax(logits)[label].

    On a CPU TensorFlow's kernel for it takes as long as the three matrix products of an output layer. There it is the
    vectorised kernel of the softmax, and few passes over the vocabulary beside it, to rounding.

    Args:
      labels: integers [...], below the vocabulary's size; of any dtype.
      logits: [..., vocabulary], of any float dtype.
      label_smoothing: the part of the target that is spread evenly over the vocabulary, the label itself included.

    Returns:
      float32 [...].
    """
    logits = ops.cast(logits, "float32")
    labels = ops.reshape(ops.cast(labels, "int32"), ops.shape(logits)[:-1])
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


def classification_loss(label_smoothing: float = 0.0) -> keras.losses.Loss:
    """The loss of a classifier, from integer labels and logits.

    Raises:
      ValueError: label_smoothing is not in [0, 1).
    """
    if label_smoothing:
        return SmoothedCrossEntropy(label_smoothing)
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@keras.saving.register_keras_serializable("tfbigbatch")
class SmoothedCrossEntropy(keras.losses.Loss):
    """Keras' SparseCategoricalCrossentropy of logits, with label smoothing, and faster for a large vocabulary.

    Args:
      label_smoothing: in [0, 1).

    Raises:
      ValueError: it is out of range.
    """

    def __init__(
        self, label_smoothing: float = 0.0, name: str = "cross_entropy", reduction: str = "sum_over_batch_size"
    ) -> None:
        super().__init__(name=name, reduction=reduction)
        if not 0.0 <= label_smoothing < 1.0:
            raise InputError(f"model.label_smoothing={label_smoothing}: expected 0 <= label_smoothing < 1.")
        self._label_smoothing = label_smoothing

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return smoothed_nats(y_true, y_pred, self._label_smoothing)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "label_smoothing": self._label_smoothing}


@keras.saving.register_keras_serializable("tfbigbatch")
class SmoothedTokenCrossEntropy(SmoothedCrossEntropy):
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
        if over not in OVER:
            raise InputError(f"over={over!r}: expected one of {', '.join(OVER)}.")
        reduction = "mean_with_sample_weight" if over == "tokens" else "sum_over_batch_size"
        super().__init__(label_smoothing, name, reduction)
        self._over = over

    def call(self, y_true: Any, y_pred: Any) -> Any:
        nats = super().call(y_true, y_pred)
        # The reduction divides by n * T.
        for size in ops.shape(nats)[1:] if self._over == "sentences" else ():
            nats *= ops.cast(size, nats.dtype)
        return nats

    def get_config(self) -> dict[str, Any]:
        return {"label_smoothing": self._label_smoothing, "over": self._over, "name": self.name}


@keras.saving.register_keras_serializable("tfbigbatch")
class MeanCrossEntropy(keras.metrics.Mean):
    """Mean nats of the labels or tokens with a weight, from integer labels and logits.

    Keras' own SparseCategoricalCrossentropy averages each example over its length first, so that a token's weight
    depends on how far its batch is padded.
    """

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        nats = smoothed_nats(y_true, y_pred)
        if sample_weight is not None:
            # Of examples, they are those of all their tokens.
            missing = len(nats.shape) - len(sample_weight.shape)
            sample_weight = ops.reshape(sample_weight, [*ops.shape(sample_weight), *[1] * missing])
            sample_weight = ops.reshape(ops.broadcast_to(sample_weight, ops.shape(nats)), [-1])
        super().update_state(ops.reshape(nats, [-1]), sample_weight)


class Perplexity(keras.metrics.Metric):
    """Perplexity: exp of the mean cross entropy per token, exact over batches, masks and replicas.

    It has no variables: read it where `cross_entropy` has its own.

    Args:
      cross_entropy: a mean of nats per token, updated beside this metric: a second softmax over the vocabulary would
        cost as much again.
    """

    def __init__(self, cross_entropy: keras.metrics.Mean, name: str = "perplexity") -> None:
        super().__init__(name=name)
        # A closure: Keras would track an attribute as a part of this metric.
        self._mean = lambda: cross_entropy.result()

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        pass

    def result(self) -> Any:
        return ops.exp(self._mean())


def classification_metrics() -> list[keras.metrics.Metric]:
    """'cross_entropy' in nats and 'accuracy', from integer labels and logits."""
    return [MeanCrossEntropy("cross_entropy"), keras.metrics.SparseCategoricalAccuracy(name="accuracy")]


def token_metrics(prefix: str = "") -> list[keras.metrics.Metric]:
    """'cross_entropy' in nats per token and 'perplexity', from integer labels and logits; `prefix` before the names."""
    nats = MeanCrossEntropy(f"{prefix}cross_entropy")
    return [nats, Perplexity(nats, name=f"{prefix}perplexity")]
