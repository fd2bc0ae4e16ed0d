"""Translation by a GNMT: beam or greedy search."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfbigbatch.models.beam_search import Hypotheses, beam_search
from tfbigbatch.models.gnmt.network import GNMT
from tfbigbatch.models.greedy_search import greedy_search


def translate(
    network: GNMT,
    source_ids: tf.Tensor,
    source_lengths: tf.Tensor,
    *,
    begin_token: int,
    end_token: int,
    max_length: int,
    beam_size: int = 5,
    length_penalty: float = 0.6,
    coverage_penalty: float = 0.1,
) -> Hypotheses:
    """The best translation of each sentence; the defaults are MLPerf's.

    In a tf.function with jit_compile=True, and static n and S, it is one XLA computation.

    Args:
      source_ids: int32 [n, S], padded at the end.
      source_lengths: int32 [n], 1 or more.
      begin_token, end_token: ids in the target's vocabulary.
      max_length: tokens of a translation at most, with its end token.
      beam_size: of `beam_search`; 1 for `greedy_search`, which ignores the penalties.
      length_penalty, coverage_penalty: of `beam_search`.

    Returns:
      One hypothesis for each sentence.

    Raises:
      ValueError: a number is out of range.
    """
    memory = network.encode(source_ids, source_lengths)
    n = source_ids.shape[0] or tf.shape(source_ids)[0]
    start = network.initial_state(n), tf.fill([n], begin_token)
    fields = {"end_token": end_token, "max_length": max_length}

    def step(tokens: tf.Tensor, state: Any) -> tuple[tf.Tensor, Any, tf.Tensor]:
        return network.step(tokens, state, memory)

    if beam_size == 1:
        return greedy_search(step, *start, **fields)
    return beam_search(
        step,
        *start,
        beam_size=beam_size,
        length_penalty=length_penalty,
        coverage_penalty=coverage_penalty,
        source_mask=memory.mask,
        **fields,
    )
