"""Beam search with GNMT's length normalisation and coverage penalty, for any model that goes token by token.

Wu et al. 2016 (arXiv:1609.08144), section 7: a hypothesis Y of a source X is worth

    s(Y, X) = log P(Y | X) / lp(Y) + cp(X, Y)
    lp(Y) = ((5 + |Y|) / 6) ** length_penalty
    cp(X, Y) = coverage_penalty * sum over source tokens j of log(min(sum over target tokens i of p_ij, 1))

where p_ij is attention's share of source token j at target token i. |Y| counts the end token and not the begin
token; MLPerf's reference counts both.

tf-models-official's `sequence_beam_search` has no coverage penalty; it knows encoded sources only as a part of each
hypothesis' cache, tiled over the beam and gathered anew at every step; and it goes on until a whole beam of finished
hypotheses is certain, where a translation needs the best one.
"""

import collections

import tensorflow as tf

from tfbigbatch.errors import InputError

# tokens, int32 [n, h, max_length], the end token at the end and behind it; lengths, int32 [n, h], the end token
# counted; float32 scores [n, h], best first.
Hypotheses = collections.namedtuple("Hypotheses", "tokens lengths scores")
_Alive = collections.namedtuple("_Alive", "tokens log_probability last state coverage")

# Of source tokens that attention never saw: log(0) would rank all such hypotheses alike, as worthless.
_LEAST_COVERAGE = 1e-9


def beam_search(
    step,
    state,
    start_tokens,
    *,
    end_token,
    beam_size,
    max_length,
    length_penalty=0.6,
    coverage_penalty=0.0,
    source_mask=None,
    hypotheses=1,
):
    """The best hypotheses that a beam finds for each of n sentences, as one loop on the device.

    At each step the 2 * beam_size likeliest continuations of a sentence's beam are looked at: those that end are
    finished, and the beam_size likeliest of the others go on. A sentence stops where no hypothesis that goes on can
    overtake a finished one: its log P can only fall, lp is greatest at `max_length`, and cp at most 0. The loop ends
    when all have stopped, or at `max_length`; a sentence with too few finished hypotheses then gives its likeliest
    unfinished ones after them, without an end token.

    Args:
      step: function from tokens int32 [n, k] and the state, each tensor [n, k, ...], to float logits
        [n, k, vocabulary]; the state after it; and attention's shares [n, k, S], 0 on padding, or None. k is
        beam_size. What is the same for all hypotheses of a sentence, as its encoded source, need not be in the state.
      state: nest of tensors [n, ...], before the first step.
      start_tokens: integers [n], the begin token of each sentence.
      end_token: int.
      beam_size: hypotheses of a sentence that go on.
      max_length: tokens of a hypothesis at most, with its end token.
      length_penalty, coverage_penalty: the exponent and factor above, 0 for none; MLPerf's are 0.6 and 0.1.
      source_mask: bool [n, S], true for real source tokens; needed for a coverage penalty.
      hypotheses: h, how many to give.

    Returns:
      `Hypotheses`.

    Raises:
      ValueError: a number is out of its range, or there is no source_mask for the coverage penalty.
    """
    _check(beam_size, max_length, length_penalty, coverage_penalty, source_mask, hypotheses)

    def score(log_probability, coverage, length):
        ranked = log_probability / length_norm(length, length_penalty)
        if not coverage_penalty:
            return ranked
        seen = tf.math.log(tf.clip_by_value(coverage, _LEAST_COVERAGE, 1.0))
        return ranked + coverage_penalty * tf.reduce_sum(tf.where(source_mask[:, tf.newaxis], seen, 0.0), axis=-1)

    def goes_on(time, alive, finished):
        most = alive.log_probability[:, 0] / length_norm(max_length, length_penalty)
        return (time < max_length) & tf.reduce_any(most > finished.scores[:, -1])

    def body(time, alive, finished):
        logits, state, shares = step(alive.last, alive.state)
        coverage = alive.coverage + shares if coverage_penalty else alive.coverage
        likelihood, parents, tokens = _continuations(logits, alive.log_probability, 2 * beam_size)
        here = tf.range(max_length) == time
        written = tf.where(here, tokens[..., tf.newaxis], _of(alive.tokens, parents))
        ends = tokens == end_token
        ended = Hypotheses(
            written,
            tf.fill(tf.shape(tokens), time + 1),
            tf.where(ends, score(likelihood, _of(coverage, parents), time + 1), -float("inf")),
        )
        finished = _best(tf.nest.map_structure(lambda a, b: tf.concat([a, b], axis=1), finished, ended), hypotheses)
        likelihood, chosen = tf.math.top_k(tf.where(ends, -float("inf"), likelihood), beam_size)
        parents = _of(parents, chosen)
        going = [tf.nest.map_structure(lambda values: _of(values, parents), part) for part in (state, coverage)]
        return time + 1, _Alive(_of(written, chosen), likelihood, _of(tokens, chosen), *going), finished

    alive, finished = _begin(state, start_tokens, end_token, beam_size, max_length, source_mask, hypotheses)
    if not coverage_penalty:
        alive = alive._replace(coverage=())
    time, alive, finished = tf.while_loop(
        goes_on, body, (tf.constant(0), alive, finished), maximum_iterations=max_length, parallel_iterations=1
    )
    unfinished = Hypotheses(
        alive.tokens,
        tf.fill(tf.shape(alive.last), time),
        score(alive.log_probability, alive.coverage, time),
    )
    return _filled_up(finished, _best(unfinished, hypotheses))


def length_norm(length, length_penalty):
    """lp of the module's formula, of a length as a number or a tensor: a float32 scalar."""
    return ((5.0 + tf.cast(length, tf.float32)) / 6.0) ** length_penalty


def _begin(state, start_tokens, end_token, beam_size, max_length, source_mask, hypotheses):
    """One hypothesis for each sentence, in a beam whose other places are impossible; and none finished."""
    n = start_tokens.shape[0] or tf.shape(start_tokens)[0]

    def spread(values):
        values = tf.convert_to_tensor(values)
        return tf.repeat(values[:, tf.newaxis], beam_size, axis=1)

    impossible = [0.0] + [-float("inf")] * (beam_size - 1)
    tokens = tf.fill([n, beam_size, max_length], end_token)
    coverage = () if source_mask is None else spread(tf.zeros(tf.shape(source_mask), tf.float32))
    alive = _Alive(
        tokens,
        tf.repeat(tf.constant([impossible]), n, axis=0),
        spread(tf.cast(start_tokens, tf.int32)),
        tf.nest.map_structure(spread, state),
        coverage,
    )
    finished = Hypotheses(
        tf.fill([n, hypotheses, max_length], end_token),
        tf.zeros([n, hypotheses], tf.int32),
        tf.fill([n, hypotheses], -float("inf")),
    )
    return alive, finished


def _continuations(logits, log_probability, count):
    """The likeliest `count` of a sentence's beam times vocabulary: log P, beam's place and token, each [n, count]."""
    vocabulary = logits.shape[-1]
    likelihood = tf.nn.log_softmax(tf.cast(logits, tf.float32)) + log_probability[..., tf.newaxis]
    likelihood, places = tf.math.top_k(tf.reshape(likelihood, [-1, logits.shape[1] * vocabulary]), count)
    return likelihood, places // vocabulary, places % vocabulary


def _of(values, places):
    """values[sentence, place] for places [n, m] of [n, k, ...]; the empty nest stays."""
    return tf.nest.map_structure(lambda tensor: tf.gather(tensor, places, batch_dims=1), values)


def _best(candidates, count):
    """The `count` of highest score; among equals the earlier."""
    scores, places = tf.math.top_k(candidates.scores, count)
    return Hypotheses(_of(candidates.tokens, places), _of(candidates.lengths, places), scores)


def _filled_up(finished, unfinished):
    """The finished, with unfinished ones in the places that are left at their end."""
    left = finished.scores == -float("inf")
    count = tf.reduce_sum(tf.cast(~left, tf.int32), axis=1, keepdims=True)
    places = tf.maximum(tf.range(finished.scores.shape[1]) - count, 0)
    return Hypotheses(
        tf.where(left[..., tf.newaxis], _of(unfinished.tokens, places), finished.tokens),
        tf.where(left, _of(unfinished.lengths, places), finished.lengths),
        tf.where(left, _of(unfinished.scores, places), finished.scores),
    )


def _check(beam_size, max_length, length_penalty, coverage_penalty, source_mask, hypotheses):
    if beam_size < 1 or max_length < 1 or not 1 <= hypotheses <= beam_size:
        raise InputError(
            f"beam_size={beam_size}, max_length={max_length}, hypotheses={hypotheses}: expected 1 or more of each, and "
            "no more hypotheses than the beam is wide."
        )
    if length_penalty < 0 or coverage_penalty < 0:
        raise InputError(
            f"length_penalty={length_penalty}, coverage_penalty={coverage_penalty}: expected 0 or more; with less a "
            "search could not know when to stop."
        )
    if coverage_penalty and source_mask is None:
        raise InputError(f"coverage_penalty={coverage_penalty} needs source_mask: which source tokens are real.")
