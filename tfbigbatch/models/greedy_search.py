"""Greedy search: the likeliest token at each step."""

import tensorflow as tf

from tfbigbatch.errors import InputError
from tfbigbatch.models.beam_search import Hypotheses


def greedy_search(step, state, start_tokens, *, end_token, max_length):
    """The sequence that takes the likeliest token at each step, for each of n sentences, as one loop on the device.

    A beam of one is another thing: it looks at the second likeliest token too, wherever the first ends a hypothesis.

    Args:
      step, state, start_tokens, end_token, max_length: as of `beam_search`, with k of 1. The loop ends when all
        sentences have their end token.

    Returns:
      `Hypotheses` of one a sentence; scores are log P.

    Raises:
      ValueError: max_length is below 1.
    """
    if max_length < 1:
        raise InputError(f"max_length={max_length}: expected 1 or more.")

    def goes_on(time, tokens, last, state, lengths, likelihood, done):
        return ~tf.reduce_all(done)

    def body(time, tokens, last, state, lengths, likelihood, done):
        logits, state, _ = step(last, state)
        log_shares = tf.nn.log_softmax(tf.cast(logits, tf.float32))
        last = tf.where(done, end_token, tf.argmax(log_shares, axis=-1, output_type=tf.int32))
        tokens = tf.where(tf.range(max_length) == time, last[..., tf.newaxis], tokens)
        lengths += tf.cast(~done, tf.int32)
        likelihood += tf.where(done, 0.0, tf.reduce_max(log_shares, axis=-1))
        return time + 1, tokens, last, state, lengths, likelihood, done | (last == end_token)

    n = start_tokens.shape[0] or tf.shape(start_tokens)[0]
    start = (
        tf.constant(0),
        tf.fill([n, 1, max_length], end_token),
        tf.cast(start_tokens, tf.int32)[:, tf.newaxis],
        tf.nest.map_structure(lambda values: tf.convert_to_tensor(values)[:, tf.newaxis], state),
        tf.zeros([n, 1], tf.int32),
        tf.zeros([n, 1]),
        tf.zeros([n, 1], tf.bool),
    )
    _, tokens, _, _, lengths, likelihood, _ = tf.while_loop(
        goes_on, body, start, maximum_iterations=max_length, parallel_iterations=1
    )
    return Hypotheses(tokens, lengths, likelihood)
