"""Normalised Bahdanau attention: who looks at which source token, for all target tokens at once."""

import collections

import tensorflow as tf
import tf_keras

# What attention reads of encoded sentences: values [n, S, width] and keys [n, S, units] of the compute dtype, and
# mask [n, S], true for real tokens.
Memory = collections.namedtuple("Memory", "values keys mask")


class NormedBahdanau(tf_keras.layers.Layer):
    """Additive attention with a normalised score vector.

        score(query, key) = g * v . tanh(W_q query + W_k key + b) / |v|

    Bahdanau et al. 2015 (arXiv:1409.0473), section A.1.2, with the weight normalisation of Salimans & Kingma 2016
    (arXiv:1602.07868): the `normed_bahdanau` of Luong et al.'s tfnmt, and the attention of MLPerf's GNMT.
    Matrices and v begin uniform, g as 1 / sqrt(units), b as 0.

    tf_keras.layers.AdditiveAttention has neither matrices, g nor b. Scores and shares are float32 whatever the
    precision.

    Args:
      units: width of what the tanh is of.
      initial_scale: the matrices and v begin uniform in [-initial_scale, initial_scale].
    """

    def __init__(self, units, *, initial_scale=0.1, **kwargs):
        super().__init__(**kwargs)
        self.units = units

        def uniform():
            return tf_keras.initializers.RandomUniform(-initial_scale, initial_scale)

        self._initial_v = uniform()
        self.of_query = tf_keras.layers.Dense(units, use_bias=False, kernel_initializer=uniform(), name="query")
        self.of_key = tf_keras.layers.Dense(units, use_bias=False, kernel_initializer=uniform(), name="key")

    def build(self, input_shape):
        self.v = self.add_weight("v", [self.units], initializer=self._initial_v)
        # Named as in normalisation layers, so that the usual exclusions from decay and trust ratio find them.
        self.g = self.add_weight("gamma", [], initializer=tf_keras.initializers.Constant(self.units**-0.5))
        self.b = self.add_weight("bias", [self.units], initializer="zeros")
        super().build(input_shape)

    def memory(self, values, lengths):
        """What `call` looks at.

        Args:
          values: [n, S, width], encoded tokens.
          lengths: int32 [n], how many are real; each 1 or more.

        Returns:
          `Memory`. Its keys hold b already: added here, it costs one pass over the source and not one over all pairs.
        """
        # The scope that Keras opens for `call`: weights are named by it.
        with tf.name_scope(self.name):
            if not self.built:
                self.build(None)
            keys = self.of_key(values)
        mask = tf.sequence_mask(lengths, values.shape[1] or tf.shape(values)[1])
        return Memory(tf.cast(values, self.compute_dtype), keys + tf.cast(self.b, keys.dtype), mask)

    def call(self, query, memory):
        """Attends.

        What the tanh is of holds n * T * S * units values, and training keeps them: the largest tensor of a GNMT but
        for its logits. Where memory is short, micro-batches are.

        Args:
          query: [n, T, any]: all time steps of a target, or all hypotheses of a beam.
          memory: `Memory` of the n sentences.

        Returns:
          context, [n, T, width] of the compute dtype, and float32 shares, [n, T, S], which sum to 1 over a
          sentence's real tokens and are 0 on its padding.
        """
        pairs = tf.tanh(self.of_query(query)[:, :, tf.newaxis] + memory.keys[:, tf.newaxis])
        v = tf.cast(self.v, tf.float32)
        direction = tf.cast(self.g, tf.float32) * v * tf.math.rsqrt(tf.reduce_sum(v * v))
        # As a product of two matrices: TensorFlow 2.20's own broadcasting one writes past its memory on CPUs.
        flat = tf.reshape(tf.cast(pairs, tf.float32), [-1, self.units])
        scores = tf.reshape(tf.matmul(flat, direction[:, tf.newaxis]), tf.shape(pairs)[:3])
        shares = tf.nn.softmax(tf.where(memory.mask[:, tf.newaxis], scores, scores.dtype.min), axis=-1)
        return tf.matmul(tf.cast(shares, memory.values.dtype), memory.values), shares
