"""Greedy search: the most likely token at each step."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfbigbatch.errors import InputError
from tfbigbatch.models.beam_search import Hypotheses, State, Step


def greedy_search(step: Step, state: State, start_tokens: tf.Tensor, *, end_token: int, max_length: int) -> Hypotheses:
    """Takes the most likely token at each step, for each of n sentences, as one loop on the device.

    A beam of one differs: where the most likely token ends a hypothesis, it also follows the second.

    Args:
      step, state, start_tokens, end_token, max_length: as in `beam_search`, with k = 1. The loop ends when all
        sentences have their end token.

    Returns:
      One hypothesis for each sentence; scores are log P.

    Raises:
      ValueError: max_length is below 1.
    """
    if max_length < 1:
        raise InputError(f"max_length={max_length}: expected 1 or more.")

    def unfinished(*loop: Any) -> tf.Tensor:
        return ~tf.reduce_all(loop[-1])

    def body(
        time: tf.Tensor,
        tokens: tf.Tensor,
        last: tf.Tensor,
        state: State,
        lengths: tf.Tensor,
        likelihood: tf.Tensor,
        done: tf.Tensor,
    ) -> tuple[Any, ...]:
        logits, state, _ = step(last, state)
        log_probabilities = tf.nn.log_softmax(tf.cast(logits, tf.float32))
        last = tf.where(done, end_token, tf.argmax(log_probabilities, axis=-1, output_type=tf.int32))
        tokens = tf.where(tf.range(max_length) == time, last[..., tf.newaxis], tokens)
        lengths += tf.cast(~done, tf.int32)
        likelihood += tf.where(done, 0.0, tf.reduce_max(log_probabilities, axis=-1))
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
        unfinished, body, start, maximum_iterations=max_length, parallel_iterations=1
    )
    return Hypotheses(tokens, lengths, likelihood)
