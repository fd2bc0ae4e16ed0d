"""Beam search with GNMT's length normalisation and coverage penalty, for any autoregressive model.

Wu et al. 2016 (arXiv:1609.08144), section 7: the score of a hypothesis Y of a source X is

    s(Y, X) = log P(Y | X) / lp(Y) + cp(X, Y)
    lp(Y) = ((5 + |Y|) / 6) ** length_penalty
    cp(X, Y) = coverage_penalty * sum over source tokens j of log(min(sum over target tokens i of p_ij, 1))

where p_ij is the attention weight of source token j at target token i. |Y| counts the end token and not the begin
token; MLPerf's reference counts both.

Own code, as tf-models-official's `sequence_beam_search` has no coverage penalty; it takes encoded sources only as a
part of each hypothesis' cache, tiled over the beam and gathered at every step; and it stops only when a whole beam of
finished hypotheses is certain, where a translation needs the best one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfbigbatch.errors import InputError

State = Any
"""A nest of tensors [n, ...]: the state of a model between two tokens."""
Step = Callable[[tf.Tensor, State], tuple[tf.Tensor, State, Any]]


class Hypotheses(NamedTuple):
    """The best hypothesis of each of n sentences."""

    tokens: tf.Tensor
    """int32 [n, max_length], padded with the end token."""
    lengths: tf.Tensor
    """int32 [n], the end token included."""
    scores: tf.Tensor
    """float32 [n]."""


class _Alive(NamedTuple):
    """The unfinished hypotheses of a beam."""

    tokens: tf.Tensor
    log_probability: tf.Tensor
    last: tf.Tensor
    state: State
    coverage: Any


# Coverage of source tokens that were never attended to: log(0) would give all such hypotheses the same score.
_LEAST_COVERAGE = 1e-9


def beam_search(
    step: Step,
    state: State,
    start_tokens: tf.Tensor,
    *,
    end_token: int,
    beam_size: int,
    max_length: int,
    length_penalty: float = 0.6,
    coverage_penalty: float = 0.0,
    source_mask: tf.Tensor | None = None,
) -> Hypotheses:
    """Searches the best hypothesis of each of n sentences, as one loop on the device.

    Each step takes the 2 * beam_size likeliest continuations of a sentence's beam: those that end are finished, and
    the beam_size likeliest of the others stay in the beam. A sentence stops when no unfinished hypothesis can overtake
    its best finished one: its log P can only fall, lp is greatest at `max_length`, and cp at most 0. The loop ends when
    all sentences have stopped, or at `max_length`; a sentence without a finished hypothesis then gives its best
    unfinished one, without an end token. A beam of 1 is greedy search: it takes the likeliest token alone, stops at the
    end token, and ignores the penalties.

    Args:
      step: function from tokens int32 [n, k] and the state, each tensor [n, k, ...], to float logits
        [n, k, vocabulary]; the next state; and the attention weights [n, k, S], 0 on padding, or None. k is
        beam_size. What is the same for all hypotheses of a sentence, as its encoded source, need not be in the state.
      state: nest of tensors [n, ...], before the first step.
      start_tokens: integers [n], the begin token of each sentence.
      end_token: the token that ends a hypothesis.
      beam_size: unfinished hypotheses of a sentence.
      max_length: tokens of a hypothesis at most, with its end token.
      length_penalty, coverage_penalty: the exponent and factor above, 0 for none; MLPerf's are 0.6 and 0.1.
      source_mask: bool [n, S], true for real source tokens; needed for a coverage penalty.

    Raises:
      ValueError: a number is out of range, or there is no source_mask for the coverage penalty.
    """
    if beam_size < 1 or max_length < 1:
        raise InputError(f"beam_size={beam_size}, max_length={max_length}: expected 1 or more of each.")
    if length_penalty < 0 or coverage_penalty < 0:
        raise InputError(
            f"length_penalty={length_penalty}, coverage_penalty={coverage_penalty}: expected 0 or more; with less a "
            "search could not know when to stop."
        )
    if coverage_penalty and source_mask is None:
        raise InputError(f"coverage_penalty={coverage_penalty} needs source_mask: which source tokens are real.")
    if beam_size == 1:
        length_penalty = coverage_penalty = 0.0
    n = start_tokens.shape[0] or tf.shape(start_tokens)[0]

    def spread(values: Any) -> tf.Tensor:
        values = tf.convert_to_tensor(values)
        return tf.repeat(values[:, tf.newaxis], beam_size, axis=1)

    def score(log_probability: tf.Tensor, coverage: Any, length: Any) -> tf.Tensor:
        """s of the module's formula."""
        normalised = log_probability / _length_norm(length, length_penalty)
        if not coverage_penalty or source_mask is None:
            return normalised
        seen = tf.math.log(tf.clip_by_value(coverage, _LEAST_COVERAGE, 1.0))
        return normalised + coverage_penalty * tf.reduce_sum(tf.where(source_mask[:, tf.newaxis], seen, 0.0), axis=-1)

    def unfinished(time: tf.Tensor, alive: _Alive, finished: Hypotheses) -> tf.Tensor:
        """True if an unfinished hypothesis can still overtake a finished one."""
        most = alive.log_probability[:, 0] / _length_norm(max_length, length_penalty)
        return (time < max_length) & tf.reduce_any(most > finished.scores)

    def body(time: tf.Tensor, alive: _Alive, finished: Hypotheses) -> tuple[tf.Tensor, _Alive, Hypotheses]:
        logits, state, attention = step(alive.last, alive.state)
        coverage = alive.coverage + attention if coverage_penalty else alive.coverage
        count = 2 * beam_size if beam_size > 1 else 1
        likelihood, parents, tokens = _continuations(logits, alive.log_probability, count)
        here = tf.range(max_length) == time
        written = tf.where(here, tokens[..., tf.newaxis], _of(alive.tokens, parents))
        ends = tokens == end_token
        ended = Hypotheses(
            written,
            tf.fill(tf.shape(tokens), time + 1),
            tf.where(ends, score(likelihood, _of(coverage, parents), time + 1), -float("inf")),
        )
        candidates = tf.nest.map_structure(lambda a, b: tf.concat([a[:, tf.newaxis], b], axis=1), finished, ended)
        likelihood, chosen = tf.math.top_k(tf.where(ends, -float("inf"), likelihood), beam_size)
        parents = _of(parents, chosen)
        kept = [tf.nest.map_structure(lambda values: _of(values, parents), part) for part in (state, coverage)]
        alive = _Alive(_of(written, chosen), likelihood, _of(tokens, chosen), *kept)
        return time + 1, alive, _best(candidates)

    # A beam of one possible hypothesis for each sentence, the others of probability 0.
    impossible = [0.0] + [-float("inf")] * (beam_size - 1)
    alive = _Alive(
        tf.fill([n, beam_size, max_length], end_token),
        tf.repeat(tf.constant([impossible]), n, axis=0),
        spread(tf.cast(start_tokens, tf.int32)),
        tf.nest.map_structure(spread, state),
        spread(tf.zeros(tf.shape(source_mask), tf.float32)) if coverage_penalty else (),
    )
    nothing = Hypotheses(tf.fill([n, max_length], end_token), tf.zeros([n], tf.int32), tf.fill([n], -float("inf")))
    time, alive, finished = tf.while_loop(
        unfinished, body, (tf.constant(0), alive, nothing), maximum_iterations=max_length, parallel_iterations=1
    )
    lengths = tf.fill(tf.shape(alive.last), time)
    left = _best(Hypotheses(alive.tokens, lengths, score(alive.log_probability, alive.coverage, time)))
    none = finished.scores == -float("inf")
    return Hypotheses(
        tf.where(none[:, tf.newaxis], left.tokens, finished.tokens),
        tf.where(none, left.lengths, finished.lengths),
        tf.where(none, left.scores, finished.scores),
    )


def _length_norm(length: Any, length_penalty: float) -> tf.Tensor:
    """lp of the module's formula: a float32 scalar, of a number or scalar tensor."""
    return ((5.0 + tf.cast(length, tf.float32)) / 6.0) ** length_penalty


def _continuations(logits: tf.Tensor, log_probability: tf.Tensor, count: int) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The likeliest `count` of beam times vocabulary: log P, index in the beam and token, each [n, count]."""
    vocabulary = logits.shape[-1]
    likelihood = tf.nn.log_softmax(tf.cast(logits, tf.float32)) + log_probability[..., tf.newaxis]
    likelihood, indices = tf.math.top_k(tf.reshape(likelihood, [-1, logits.shape[1] * vocabulary]), count)
    return likelihood, indices // vocabulary, indices % vocabulary


def _of(values: Any, indices: tf.Tensor) -> Any:
    """values[sentence, index] for indices [n, m] and a nest of [n, k, ...]; the empty nest stays."""
    return tf.nest.map_structure(lambda tensor: tf.gather(tensor, indices, batch_dims=1), values)


def _best(candidates: Hypotheses) -> Hypotheses:
    """The hypothesis of highest score among [n, k]; among equals the first."""
    best = tf.argmax(candidates.scores, axis=1, output_type=tf.int32)
    return Hypotheses(*(tf.gather(each, best, batch_dims=1) for each in candidates))
