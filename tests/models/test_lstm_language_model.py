import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.networks_in_numpy import cross_entropies
from tfbigbatch.models.lstm_language_model import lstm_language_model

FIELDS = {"vocabulary_size": 11, "window": 6, "hidden_units": 5, "embedding_units": 3, "layers": 2}


def zero_states(batch):
    return [tf.zeros([batch, 5])] * 4


def tokens(batch, length=6, seed=0):
    return np.random.RandomState(seed).randint(0, 11, (batch, length)).astype(np.int32)


def test_windows_with_carried_state_are_one_unbroken_sequence():
    model = lstm_language_model(**FIELDS, initial_scale=0.5)
    text = tokens(3, 19)
    states, logits = zero_states(3), []
    for start in range(0, 18, 6):
        out, *states = model([tf.constant(text[:, start : start + 6]), *states])
        logits.append(out)
    nats = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=text[:, 1:], logits=tf.concat(logits, axis=1))
    for row, line in zip(nats.numpy(), text):
        np.testing.assert_allclose(row, cross_entropies(model.get_weights(), line), rtol=1e-5)


def test_weights_begin_as_the_paper_says():
    weights = lstm_language_model(**{**FIELDS, "hidden_units": 50}, initial_scale=0.04).get_weights()
    assert all(np.abs(weight).max() <= 0.04 for weight in weights)
    assert all(np.abs(weight).max() > 0.03 for weight in weights if weight.size > 50)
    np.testing.assert_allclose([weight.mean() for weight in weights if weight.size > 1000], 0, atol=3e-3)
    biases = lstm_language_model(**FIELDS, unit_forget_bias=True).get_layer("lstm_1").cell.bias.numpy()
    np.testing.assert_array_equal(biases[5:10], 1)


@pytest.mark.parametrize("unroll", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_xla_compiles_a_training_pass_to_the_same_numbers(unroll):
    model = lstm_language_model(**FIELDS, unroll=unroll, initial_scale=0.5)
    text = tokens(4, 7)

    def forward_and_backward(states):
        with tf.GradientTape() as tape:
            logits, *after = model([tf.constant(text[:, :-1]), *states], training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=text[:, 1:], logits=logits))
        gradients = tape.gradient(loss, [each.value for each in model.trainable_variables])
        return loss, after, [tf.convert_to_tensor(gradient) for gradient in gradients]

    states = [tf.random.stateless_normal([4, 5], [seed, 0]) for seed in range(4)]
    plain = tf.function(forward_and_backward)(states)
    fused = tf.function(forward_and_backward, jit_compile=True)(states)
    tf.nest.map_structure(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), plain, fused)
