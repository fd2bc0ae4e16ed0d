import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import networks_in_numpy
from tests.helpers.networks_in_numpy import MadeModel
from tfbigbatch.models.beam_search import beam_search

START, END = 0, 1


def stepping(model, calls=None):
    """The made model as a `step`; `calls`, a list, gets an entry at each one that runs."""
    of_token, recurrent, to_tokens, bias, to_source = (
        tf.constant(array, tf.float32)
        for array in (model.of_token, model.recurrent, model.to_tokens, model.bias, model.to_source)
    )

    def product(values, matrix):
        return tf.einsum("nku,uv->nkv", values, matrix)

    def step(tokens, state):
        if calls is not None:
            calls.append(tokens)
        hidden = tf.tanh(tf.gather(of_token, tokens) + product(state["hidden"], recurrent))
        scores = tf.where(model.mask[:, None], product(hidden, to_source), -1e9)
        return product(hidden, to_tokens) + bias, {"hidden": hidden}, tf.nn.softmax(scores)

    return step


def run(model, calls=None, jit_compile=None, **options):
    def search():
        state = {"hidden": tf.constant(model.of_sentence, tf.float32)}
        start = tf.fill([model.sentences], START)
        return beam_search(stepping(model, calls), state, start, end_token=END, source_mask=model.mask, **options)

    return search() if jit_compile is None else tf.function(search, jit_compile=jit_compile)()


def assert_same(found, sentence, expected):
    worth, tokens = expected
    length = int(found.lengths[sentence])
    assert tuple(found.tokens[sentence, :length].numpy()) == tokens
    assert (found.tokens[sentence, length:].numpy() == END).all()
    assert float(found.scores[sentence]) == pytest.approx(worth, rel=1e-4, abs=1e-5)


PENALTIES = [(0.0, 0.0), (0.6, 0.1), (1.5, 0.5)]


@pytest.mark.parametrize(
    "length_penalty, coverage_penalty, jit_compile",
    [(*each, False) for each in PENALTIES] + [pytest.param(0.6, 0.1, True, marks=pytest.mark.slow)],
)
def test_a_narrow_beam_and_greedy_search_are_the_plain_search_that_never_stops_early(
    length_penalty, coverage_penalty, jit_compile
):
    options = {"length_penalty": length_penalty, "coverage_penalty": coverage_penalty}
    for seed, beam in ((0, 1), (1, 2), (2, 4), (0, 3)):
        # Models that like to end, and models that do not: the last has hypotheses which never do.
        model = MadeModel(seed=seed, end_bias=(2.0, 0.0, -8.0)[seed])
        found = run(model, beam_size=beam, max_length=7, jit_compile=jit_compile, **options)
        for sentence in range(3):
            expected = networks_in_numpy.search(model, sentence, start=START, end=END, beam=beam, longest=7, **options)
            assert_same(found, sentence, expected)


def test_it_stops_as_soon_as_nothing_can_be_better():
    calls = []
    found = run(MadeModel(end_bias=30.0), calls, beam_size=3, max_length=50)
    np.testing.assert_array_equal(found.lengths, 1)
    assert len(calls) == 1
    # A likely end may still be overtaken where length is rewarded.
    calls.clear()
    model = MadeModel(end_bias=1.0)
    run(model, calls, beam_size=3, max_length=50, length_penalty=1.0)
    assert 1 < len(calls) < 50
