import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import networks_in_numpy
from tfbigbatch.models.beam_search import beam_search
from tfbigbatch.models.gnmt import gnmt, translate

FIELDS = {"vocabulary_size": 11, "hidden_units": 5, "embedding_units": 4, "initial_scale": 0.7}
SHALLOW = {"encoder_layers": 2, "decoder_layers": 3}
LENGTHS = np.array([6, 2, 4], np.int32)


def batch(source_length=6, target_length=5, seed=0):
    random = np.random.RandomState(seed)
    source = random.randint(3, 11, (3, 6)).astype(np.int32)
    source[np.arange(6) >= LENGTHS[:, None]] = 0
    padded = np.zeros((3, source_length), np.int32)
    padded[:, :6] = source
    target = random.randint(0, 11, (3, target_length)).astype(np.int32)
    return {"source_ids": padded, "source_lengths": LENGTHS, "target_ids": target}


def step_by_step(network, inputs):
    """Logits and shares of one token after the other, of one hypothesis a sentence."""
    memory = network.encode(inputs["source_ids"], inputs["source_lengths"])
    state = tf.nest.map_structure(lambda value: value[:, tf.newaxis], network.initial_state(3))
    found = []
    for time in range(inputs["target_ids"].shape[1]):
        logits, state, shares = network.step(tf.constant(inputs["target_ids"][:, time : time + 1]), state, memory)
        found.append((logits[:, 0], shares[:, 0]))
    return [tf.stack(values, axis=1) for values in zip(*found)]


@pytest.mark.parametrize("layers", [(4, 4), (1, 1)])
def test_it_is_the_reference_sentence_by_sentence(layers):
    network = gnmt(**FIELDS, encoder_layers=layers[0], decoder_layers=layers[1])
    network.decoder.attention.b.assign(np.linspace(-1, 1, 5))
    inputs = batch()
    logits, weights = network(inputs), networks_in_numpy.weights_of(network)
    assert logits.dtype == tf.float32
    stepped, shares = step_by_step(network, inputs)
    for row, length in enumerate(LENGTHS):
        expected, looked = networks_in_numpy.logits(
            weights, inputs["source_ids"][row, :length], inputs["target_ids"][row]
        )
        np.testing.assert_allclose(logits[row], expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(stepped[row], expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(shares[row, :, :length], looked, rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(shares[row, :, length:], 0)


def test_padding_changes_nothing():
    network = gnmt(**FIELDS, **SHALLOW)
    inputs, longer = batch(), batch(source_length=9)
    filled = {**longer, "source_ids": np.where(longer["source_ids"] == 0, 7, longer["source_ids"])}
    expected = network(inputs)
    for other in (longer, filled):
        np.testing.assert_allclose(network(other), expected, rtol=1e-5, atol=1e-6)
    # The time before cannot see the time after.
    changed = {**inputs, "target_ids": inputs["target_ids"].copy()}
    changed["target_ids"][:, 3:] = 1
    np.testing.assert_allclose(network(changed)[:, :3], expected[:, :3], rtol=1e-5, atol=1e-6)


def test_the_parameters_are_those_of_the_formula():
    def expected(v, u, biases):
        def lstm(width):
            return 4 * u * (width + u + biases)

        encoder = 2 * lstm(u) + lstm(2 * u) + 2 * lstm(u)
        decoder = lstm(u) + 3 * lstm(2 * u) + 2 * u * u + u + 1 + u
        return v * u + encoder + decoder + u * v + v

    assert gnmt(vocabulary_size=40, hidden_units=8).count_params() == expected(40, 8, 1)
    # The number that NVIDIA gives for MLPerf's: a PyTorch LSTM has two biases.
    assert expected(32_320, 1024, 2) == 160_671_297


def test_it_saves_and_loads_as_what_it_is(tmp_path):
    network = gnmt(**FIELDS, **SHALLOW)
    network.save(tmp_path / "network.keras")
    loaded = keras.saving.load_model(tmp_path / "network.keras")
    assert type(loaded) is type(network) and loaded.decoder.attention.units == 5
    np.testing.assert_array_equal(loaded(batch()), network(batch()))


BEGIN, END = 1, 2


def reference(network, sources):
    """The network in NumPy as `networks_in_numpy.search` wants it: a state is all tokens so far."""
    weights = networks_in_numpy.weights_of(network)

    def follow(sentence, state, token):
        state, length = (*state, token), LENGTHS[sentence]
        logits, shares = networks_in_numpy.logits(weights, sources[sentence, :length], state)
        padded = np.pad(shares[-1], (0, sources.shape[1] - length))
        return logits[-1] - np.logaddexp.reduce(logits[-1]), padded, state

    mask = np.arange(sources.shape[1]) < LENGTHS[:, None]
    return types.SimpleNamespace(first=lambda sentence: (), follow=follow, mask=mask)


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "policy, length_penalty, coverage_penalty, jit_compile",
    [
        *(("float32", *penalties, False) for penalties in ((0.0, 0.0), (0.6, 0.1), (1.5, 0.5))),
        pytest.param("float32", 0.6, 0.1, True, marks=SLOW),
        pytest.param("mixed_bfloat16", 0.6, 0.1, True, marks=SLOW),
    ],
)
def test_a_beam_is_the_plain_search_of_the_reference_that_never_stops_early(
    policy, length_penalty, coverage_penalty, jit_compile
):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    network, sources = gnmt(**FIELDS, **SHALLOW), batch()["source_ids"]
    keras.config.set_dtype_policy(before)
    network.classifier.kernel.assign(3 * network.classifier.kernel.value)
    penalties = {"length_penalty": length_penalty, "coverage_penalty": coverage_penalty}

    def run(beam):
        options = {"begin_token": BEGIN, "end_token": END, "beam_size": beam, "max_length": 5}
        return translate(network, tf.constant(sources), tf.constant(LENGTHS), **options, **penalties)

    # Networks that like to end, and networks that do not: one has hypotheses which never do.
    for beam, end_bias in ((1, 2.0), (2, 0.0), (4, -8.0), (3, 2.0)):
        network.classifier.bias.assign(np.where(np.arange(11) == END, end_bias, 0.0))
        found = tf.function(run, jit_compile=True)(beam) if jit_compile else run(beam)
        assert found.tokens.shape == (3, 5) and np.isfinite(found.scores).all()
        for sentence in range(3) if policy == "float32" else ():
            worth, tokens = networks_in_numpy.search(
                reference(network, sources), sentence, start=BEGIN, end=END, beam=beam, longest=5, **penalties
            )
            length = int(found.lengths[sentence])
            assert tuple(found.tokens[sentence, :length].numpy()) == tokens
            assert (found.tokens[sentence, length:].numpy() == END).all()
            assert float(found.scores[sentence]) == pytest.approx(worth, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("end_bias, length_penalty, steps", [(30.0, 0.6, 1), (1.0, 1.0, 4)])
def test_it_stops_as_soon_as_nothing_can_be_better(end_bias, length_penalty, steps):
    """A likely end may still be overtaken where length is rewarded."""
    calls = []

    def step(tokens, state):
        calls.append(tokens)
        return end_bias * tf.one_hot(tf.fill(tokens.shape, END), 4), state, None

    options = {"end_token": END, "beam_size": 3, "max_length": 50, "length_penalty": length_penalty}
    found = beam_search(step, (), tf.fill([2], BEGIN), **options)
    np.testing.assert_array_equal(found.lengths, 1)
    assert len(calls) == steps
