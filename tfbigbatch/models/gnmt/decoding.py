"""Translations from a GNMT."""

import tensorflow as tf

from tfbigbatch.models.beam_search import beam_search
from tfbigbatch.models.greedy_search import greedy_search


def translate(
    network,
    source_ids,
    source_lengths,
    *,
    begin_token,
    end_token,
    max_length,
    beam_size=5,
    length_penalty=0.6,
    coverage_penalty=0.1,
):
    """The best translation of each sentence; the defaults are MLPerf's.

    In a tf.function with jit_compile=True, and static n and S, it is one XLA computation.

    Args:
      network: `gnmt.GNMT`.
      source_ids: int32 [n, S], padded at their end.
      source_lengths: int32 [n], 1 and more.
      begin_token, end_token: ids of the target's.
      max_length: tokens of a translation at most, with its end token.
      beam_size: of `beam_search`; 1 for `greedy_search`, which knows no penalties.
      length_penalty, coverage_penalty: of `beam_search`.

    Returns:
      `beam_search.Hypotheses`, one for each sentence.

    Raises:
      ValueError: a number is out of its range.
    """
    memory = network.encode(source_ids, source_lengths)
    n = source_ids.shape[0] or tf.shape(source_ids)[0]
    start = network.initial_state(n), tf.fill([n], begin_token)
    fields = {"end_token": end_token, "max_length": max_length}

    def step(tokens, state):
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
