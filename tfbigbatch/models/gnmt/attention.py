"""Normalised Bahdanau attention, for all target tokens at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf
import tf_keras

from tfbigbatch.models.recurrent import uniform


class Memory(NamedTuple):
    """Encoded sentences, as attention reads them."""

    values: tf.Tensor
    """[n, S, width] of the compute dtype."""
    keys: tf.Tensor
    """[n, S, units] of the compute dtype."""
    mask: tf.Tensor
    """bool [n, S], true for real tokens."""


class NormedBahdanau(tf_keras.layers.Layer):
    """Additive attention with a normalised score vector.

        score(query, key) = g * v . tanh(W_q query + W_k key + b) / |v|

    Bahdanau et al. 2015 (arXiv:1409.0473), section A.1.2, with the weight normalisation of Salimans & Kingma 2016
    (arXiv:1602.07868): the `normed_bahdanau` of Luong et al.'s tfnmt, and the attention of MLPerf's GNMT.
    g is initialised with 1 / sqrt(units), b with 0.

    tf_keras.layers.AdditiveAttention has no matrices, g or b. Scores and weights are float32 at every precision.

    Args:
      units: width of queries and keys.
      initial_scale: the matrices and v are initialised uniformly in [-initial_scale, initial_scale].
    """

    def __init__(self, units: int, *, initial_scale: float = 0.1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units
        self._initial_v = uniform(initial_scale)
        self.of_query = tf_keras.layers.Dense(
            units, use_bias=False, kernel_initializer=uniform(initial_scale), name="query"
        )
        self.of_key = tf_keras.layers.Dense(
            units, use_bias=False, kernel_initializer=uniform(initial_scale), name="key"
        )

    def build(self, input_shape: Any) -> None:
        self.v = self.add_weight("v", [self.units], initializer=self._initial_v)
        # Named as in normalisation layers, so that the usual exclusions from decay and trust ratio find them.
        self.g = self.add_weight("gamma", [], initializer=tf_keras.initializers.Constant(self.units**-0.5))
        self.b = self.add_weight("bias", [self.units], initializer="zeros")
        super().build(input_shape)

    def memory(self, values: tf.Tensor, lengths: tf.Tensor) -> Memory:
        """The encoded sentences that `call` attends to.

        Args:
          values: [n, S, width], encoded tokens.
          lengths: int32 [n], the number of real tokens, each 1 or more.

        Returns:
          `Memory`. Its keys include b: added here, it costs one pass over the source instead of one over all pairs.
        """
        # The scope that Keras opens for `call`: the weights are named by it.
        with tf.name_scope(self.name):
            if not self.built:
                self.build(None)
            keys = self.of_key(values)
        mask = tf.sequence_mask(lengths, values.shape[1] or tf.shape(values)[1])
        return Memory(tf.cast(values, self.compute_dtype), keys + tf.cast(self.b, keys.dtype), mask)

    def call(self, query: tf.Tensor, memory: Memory) -> tuple[tf.Tensor, tf.Tensor]:
        """Attends.

        The tanh has n * T * S * units values, which training stores: the largest tensor of a GNMT except for its
        logits. Where memory is short, use micro-batches.

        Args:
          query: [n, T, any]: all time steps of a target, or all hypotheses of a beam.
          memory: `Memory` of the n sentences.

        Returns:
          context, [n, T, width] of the compute dtype, and float32 weights, [n, T, S], which sum to 1 over a
          sentence's real tokens and are 0 on its padding.
        """
        pairs = tf.tanh(self.of_query(query)[:, :, tf.newaxis] + memory.keys[:, tf.newaxis])
        v = tf.cast(self.v, tf.float32)
        direction = tf.cast(self.g, tf.float32) * v * tf.math.rsqrt(tf.reduce_sum(v * v))
        # As a product of two matrices: TensorFlow 2.20's own broadcasting one writes past its memory on CPUs.
        flat = tf.reshape(tf.cast(pairs, tf.float32), [-1, self.units])
        scores = tf.reshape(tf.matmul(flat, direction[:, tf.newaxis]), tf.shape(pairs)[:3])
        weights = tf.nn.softmax(tf.where(memory.mask[:, tf.newaxis], scores, scores.dtype.min), axis=-1)
        return tf.matmul(tf.cast(weights, memory.values.dtype), memory.values), weights
