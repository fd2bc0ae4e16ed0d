import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.helpers import networks_in_numpy
from tests.models.gnmt.test_network import FIELDS, LENGTHS, SHALLOW, batch
from tfbigbatch.models.gnmt.decoding import translate
from tfbigbatch.models.gnmt.network import gnmt

BEGIN, END = 1, 2


class Reference:
    """The network in NumPy as `networks_in_numpy.search` wants it: a state is all tokens so far."""

    vocabulary = FIELDS["vocabulary_size"]

    def __init__(self, network, sources):
        self.weights, self.sources = networks_in_numpy.weights_of(network), sources
        self.mask = np.arange(sources.shape[1]) < LENGTHS[:, None]

    def first(self, sentence):
        return ()

    def follow(self, sentence, state, token):
        state = (*state, token)
        length = LENGTHS[sentence]
        logits, shares = networks_in_numpy.logits(self.weights, self.sources[sentence, :length], state)
        padded = np.zeros(self.sources.shape[1])
        padded[:length] = shares[-1]
        return logits[-1] - np.logaddexp.reduce(logits[-1]), padded, state


@pytest.fixture
def network():
    made = gnmt(**FIELDS, **SHALLOW)
    # Some sentences end, some do not.
    made.classifier.kernel.assign(3 * made.classifier.kernel)
    return made


def translated(network, sources, jit_compile=True, **options):
    @tf.function(jit_compile=jit_compile)
    def run(ids, lengths):
        return translate(network, ids, lengths, begin_token=BEGIN, end_token=END, max_length=5, **options)

    return run(tf.constant(sources), tf.constant(LENGTHS))


@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_beam_is_the_plain_search_of_the_reference(network, jit_compile):
    sources = batch()["source_ids"]
    found, reference = translated(network, sources, jit_compile, beam_size=2), Reference(network, sources)
    for sentence in range(3):
        ((worth, tokens),) = networks_in_numpy.search(
            reference, sentence, start=BEGIN, end=END, beam=2, longest=5, length_penalty=0.6, coverage_penalty=0.1,
            count=1,
        )  # fmt: skip
        assert tuple(found.tokens[sentence, 0, : int(found.lengths[sentence, 0])].numpy()) == tokens
        assert float(found.scores[sentence, 0]) == pytest.approx(worth, rel=1e-4)


@pytest.mark.slow
def test_it_translates_in_bfloat16():
    tf_keras.mixed_precision.set_global_policy("mixed_bfloat16")
    found = translated(gnmt(**FIELDS, **SHALLOW), batch()["source_ids"], beam_size=3)
    assert found.tokens.shape == (3, 1, 5) and np.isfinite(found.scores).all()
