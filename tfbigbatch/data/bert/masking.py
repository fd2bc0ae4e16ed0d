"""Masks of masked language modelling (Devlin et al. 2018, section 3.1) as a pure function of (seed, epoch, record).

In TensorFlow, for dynamic masking (Liu et al. 2019, section 4.1). `static_masking.py` is the same in NumPy, bit for
bit, and documents the functions.
"""

from __future__ import annotations

import tensorflow as tf

from tfbigbatch.data.bert.static_masking import MASKED_FRACTION, RANDOM_BELOW, REPLACED_BELOW
from tfbigbatch.data.records import counter_random, order

_BITS = counter_random.BITS


def keys(seed: int, epoch: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
    """As counter_random.keys: int64 [n] of an int seed, int64 epochs [n] or scalar, and int64 numbers [n]."""
    run = int(counter_random.splitmix64([counter_random.seed_key(seed)]).astype("int64")[0])
    return order.splitmix64(order.splitmix64(run + tf.cast(epoch, tf.int64) + 1) + numbers)


def draws(keys: tf.Tensor, count: int) -> tf.Tensor:
    """As counter_random.draws: int64 [n, count], uniform in [0, 2^24), of int64 keys [n]."""
    golden = tf.constant(counter_random.GOLDEN - (1 << 64), tf.int64)
    steps = tf.range(1, count + 1, dtype=tf.int64) * golden
    bits = tf.bitcast(order.splitmix64(keys[:, None] + steps), tf.uint64)
    return tf.bitcast(tf.bitwise.right_shift(bits, tf.constant(64 - _BITS, tf.uint64)), tf.int64)


def choose(
    may: tf.Tensor,
    begins: tf.Tensor,
    order_draws: tf.Tensor,
    *,
    max_predictions: int,
    fraction: float = MASKED_FRACTION,
) -> tf.Tensor:
    """As static_masking.choose, of bool [n, T], bool [n, T] and int64 [n, T]."""
    rows, length = tf.shape(may)[0], may.shape[1]
    word = tf.where(may, tf.cumsum(tf.cast(may & begins, tf.int32), axis=1) - 1, 0)
    places = tf.range(rows)[:, None] * length + word
    sizes = tf.math.unsorted_segment_sum(
        tf.reshape(tf.cast(may, tf.int32), [-1]), tf.reshape(places, [-1]), rows * length
    )
    sizes = tf.reshape(sizes, [rows, length])
    ranks = tf.cast(tf.where(sizes > 0, order_draws, 1 << _BITS), tf.int32)
    ordered = tf.argsort(ranks, axis=1, stable=True)
    sizes = tf.gather(sizes, ordered, batch_dims=1)
    total = tf.reduce_sum(tf.cast(may, tf.float64), axis=1)
    aim = tf.clip_by_value(tf.round(tf.constant(fraction, tf.float64) * total), 1, max_predictions)
    left = tf.cast(tf.where(total > 0, aim, 0), tf.int32)

    def turn(taken: tf.Tensor, waiting: tf.Tensor, left: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        fits = waiting & (tf.cumsum(tf.where(waiting, sizes, 0), axis=1) <= left[:, None])
        left -= tf.reduce_sum(tf.where(fits, sizes, 0), axis=1)
        return taken | fits, waiting & ~fits & (sizes <= left[:, None]), left

    taken, _, _ = tf.while_loop(
        lambda taken, waiting, left: tf.reduce_any(waiting),
        turn,
        (tf.zeros_like(may), (sizes > 0) & (sizes <= left[:, None]), left),
    )
    # The inverse of the random order: the word of rank r is word ordered[r].
    chosen = tf.gather(taken, tf.argsort(ordered, axis=1), batch_dims=1)
    return may & tf.gather(chosen, word, batch_dims=1)


def mask(
    ids: tf.Tensor,
    may: tf.Tensor,
    begins: tf.Tensor,
    keys: tf.Tensor,
    *,
    max_predictions: int,
    mask_id: int,
    vocabulary_size: int,
    fraction: float = MASKED_FRACTION,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """As static_masking.mask, of int32 ids and int64 keys.

    Returns:
      (inputs, positions, labels, weights): int32 [n, T], int32 [n, P], int32 [n, P] and float32 [n, P].
    """
    length, unit = ids.shape[1], 1 << _BITS
    drawn = draws(keys, length + 2 * max_predictions)
    order_draws, kinds, others = tf.split(drawn, [length, max_predictions, max_predictions], axis=1)
    chosen = choose(may, begins, order_draws, max_predictions=max_predictions, fraction=fraction)
    # The largest of these are the first chosen positions.
    found = tf.math.top_k(tf.where(chosen, length - tf.range(length), 0), max_predictions).values
    there = found > 0
    positions = tf.where(there, length - found, 0)
    before = tf.gather(ids, positions, batch_dims=1)
    other = tf.cast(tf.bitwise.right_shift(others * vocabulary_size, tf.constant(_BITS, tf.int64)), tf.int32)
    after = tf.where(kinds < int(RANDOM_BELOW * unit), other, before)
    after = tf.where(kinds < int(REPLACED_BELOW * unit), mask_id, after)
    rows = tf.broadcast_to(tf.range(tf.shape(ids)[0])[:, None], tf.shape(positions))
    # Unused predictions overwrite the first token, [CLS], with itself.
    inputs = tf.tensor_scatter_nd_update(ids, tf.stack([rows, positions], -1), tf.where(there, after, before))
    return inputs, positions, tf.where(there, before, 0), tf.cast(there, tf.float32)


def words(
    ids: tf.Tensor, first_length: tf.Tensor, length: tf.Tensor, continues: tf.Tensor | None
) -> tuple[tf.Tensor, tf.Tensor]:
    """As static_masking.words."""
    positions = tf.range(ids.shape[1])
    may = (positions > 0) & (positions != first_length[:, None] - 1) & (positions < length[:, None] - 1)
    return may, beginnings(ids, may, continues)


def beginnings(ids: tf.Tensor, may: tf.Tensor, continues: tf.Tensor | None) -> tf.Tensor:
    """The maskable tokens that begin a word, bool [n, T]."""
    if continues is None:
        return may
    before = tf.pad(may, [(0, 0), (1, 0)])[:, :-1]
    return may & ~(tf.gather(continues, ids) & before)
