"""The order of the training examples, as a pure function of (seed, position).

Positions count examples from the start of training: update `step` of a run with global batch B
covers positions step * B to (step + 1) * B. Epoch e is positions e * N to (e + 1) * N, and is a
permutation of the N examples, so each epoch visits each example exactly once even where batches
straddle its end. Nothing is stored: any position is found in constant time.
"""

import tensorflow as tf

# Four rounds, the op's default, leave neighbouring seeds visibly alike on 60,000 indices; sixteen do not.
_ROUNDS = 16


def mixed(value):
    """SplitMix64's finaliser: spreads small integers over 64 bits, since small keys shuffle badly."""
    value = tf.bitcast(value, tf.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        value = tf.bitwise.bitwise_xor(value, tf.bitwise.right_shift(value, tf.constant(shift, tf.uint64)))
        value *= tf.constant(factor, tf.uint64)
    value = tf.bitwise.bitwise_xor(value, tf.bitwise.right_shift(value, tf.constant(31, tf.uint64)))
    return tf.bitcast(value, tf.int64)


def examples_at(positions, *, seed, dataset_size):
    """The indices of the examples at `positions`.

    Args:
      positions: int64 tensor of any shape.
      seed: int, the run's seed.
      dataset_size: N, at least 1; an int or an int64 scalar.

    Returns:
      int64 tensor of the same shape, values in [0, N).
    """
    flat = tf.reshape(positions, [-1])
    epoch_key = mixed(flat // dataset_size + 1)
    run_key = mixed(tf.constant(seed, tf.int64) + 1)
    # The public tf.random.experimental.index_shuffle takes one seed a call only; the op takes one an index.
    shuffled = tf.raw_ops.RandomIndexShuffle(
        index=flat % dataset_size,
        seed=tf.stack([tf.fill(tf.shape(flat), run_key), epoch_key, mixed(epoch_key + run_key)], axis=-1),
        max_index=tf.fill(tf.shape(flat), tf.cast(dataset_size - 1, tf.int64)),
        rounds=_ROUNDS,
    )
    return tf.reshape(shuffled, tf.shape(positions))
