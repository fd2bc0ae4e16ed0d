"""The losses and metrics against their formulas in NumPy and against Keras' own."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import mirrored
from tfbigbatch.optimizers.accumulation import accumulate_gradients
from tfbigbatch.tasks.losses import (
    SmoothedCrossEntropy,
    SmoothedTokenCrossEntropy,
    classification_loss,
    smoothed_nats,
    token_metrics,
)

RANDOM = np.random.RandomState(0)
LABELS = RANDOM.randint(0, 7, (4, 5)).astype(np.int32)
LOGITS = RANDOM.normal(size=(4, 5, 7)).astype(np.float32)
LENGTHS = np.array([5, 1, 3, 2])
WEIGHTS = (np.arange(5) < LENGTHS[:, None]).astype(np.float32)


def expected(label_smoothing):
    """The sum over tokens, as MLPerf's reference has it: of the label, and the mean over the vocabulary."""
    return float(np.sum(nats_of(label_smoothing) * WEIGHTS))


def nats_of(label_smoothing):
    logits = LOGITS.astype(np.float64)
    log_fractions = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
    of_label = np.take_along_axis(log_fractions, LABELS[..., None], axis=-1)[..., 0]
    return -(1 - label_smoothing) * of_label - label_smoothing * log_fractions.mean(axis=-1)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("over, divisor", [("sentences", 4), ("tokens", LENGTHS.sum())])
def test_a_token_loss_follows_its_formula(label_smoothing, over, divisor):
    loss = SmoothedTokenCrossEntropy(label_smoothing, over)
    assert float(loss(LABELS, LOGITS, WEIGHTS)) == pytest.approx(expected(label_smoothing) / divisor, rel=1e-5)
    assert float(loss(LABELS, LOGITS, 0 * WEIGHTS)) == 0.0
    narrow = loss(LABELS, tf.cast(LOGITS, tf.bfloat16), WEIGHTS)
    assert narrow.dtype == tf.float32 and float(narrow) == pytest.approx(expected(label_smoothing) / divisor, rel=1e-2)


def test_over_sentences_micro_batches_give_the_gradient_of_the_batch():
    loss, variable = SmoothedTokenCrossEntropy(), tf.Variable(LOGITS[0, 0])

    def gradients_of(data):
        labels, logits, weights = data
        with tf.GradientTape() as tape:
            value = loss(labels, logits * variable, weights)
        return tape.gradient(value, [variable])

    data = tuple(map(tf.constant, (LABELS, LOGITS, WEIGHTS)))
    whole, parts = gradients_of(data), accumulate_gradients(gradients_of, data, [variable], 2)
    np.testing.assert_allclose(parts[0], whole[0], rtol=1e-5)


@pytest.mark.parametrize("make", [classification_loss, SmoothedCrossEntropy])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize(
    "labels, logits, weights", [(LABELS[:, 0], LOGITS[:, 0], np.float32([1, 0, 1, 0.5])), (LABELS, LOGITS, WEIGHTS)]
)
def test_a_classifiers_loss_is_that_of_smoothed_targets(make, label_smoothing, labels, logits, weights):
    expected = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=label_smoothing)
    for given in (None, weights):
        found = make(label_smoothing)(labels, logits, given)
        np.testing.assert_allclose(found, expected(tf.one_hot(labels, 7), logits, given), rtol=1e-5)


# The last has probabilities of its labels that float32 does not have.
@pytest.mark.parametrize("scale", [0.1, 5.0, 200.0])
@pytest.mark.parametrize("in_graph", [False, True])
def test_cross_entropy_is_its_formula_with_its_gradient(scale, in_graph):
    logits, weights = scale * LOGITS, np.float32([[0.5, 1, 0, 2, 1]])

    def run(logits):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            nats = smoothed_nats(tf.constant(LABELS), logits)
        return nats, tape.gradient(nats, logits, output_gradients=tf.repeat(weights, 4, axis=0))

    nats, gradient = (tf.function(run) if in_graph else run)(tf.constant(logits))
    wide = logits.astype(np.float64)
    log_fractions = wide - np.logaddexp.reduce(wide, axis=-1, keepdims=True)
    of_label = np.take_along_axis(log_fractions, LABELS[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(nats, -of_label, rtol=1e-5, atol=1e-6)
    expected = (np.exp(log_fractions) - np.eye(7)[LABELS]) * weights[..., None]
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)


def test_cross_entropy_has_the_second_derivatives_of_the_formula():
    def of(function):
        with tf.GradientTape() as outer:
            logits = tf.constant(LOGITS)
            outer.watch(logits)
            with tf.GradientTape() as inner:
                inner.watch(logits)
                value = tf.reduce_sum(function(tf.constant(LABELS), logits) * WEIGHTS)
            slope = tf.reduce_sum(inner.gradient(value, logits) * LOGITS**2)
        return outer.gradient(slope, logits)

    expected = of(tf.nn.sparse_softmax_cross_entropy_with_logits)
    np.testing.assert_allclose(of(smoothed_nats), expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(tf.function(lambda: of(smoothed_nats))(), expected, rtol=1e-4, atol=1e-6)


def test_xla_gets_the_plain_operation():
    plain = tf.nn.sparse_softmax_cross_entropy_with_logits(LABELS, LOGITS)
    compiled = tf.function(lambda: smoothed_nats(tf.constant(LABELS), tf.constant(LOGITS)), jit_compile=True)
    np.testing.assert_allclose(compiled(), plain, rtol=1e-5, atol=1e-6)
    assert "SparseSoftmaxCrossEntropyWithLogits" in {
        node.op for node in compiled.get_concrete_function().graph.as_graph_def().node
    }


# The mean over replicas, which adds their gradients: each divides its own mean by their number.
@pytest.mark.parametrize("over", ["sentences", "tokens"])
def test_the_losses_of_replicas_add_up_to_their_mean(over):
    strategy, loss = mirrored(2), SmoothedTokenCrossEntropy(0.1, over)
    parts = [float(loss(LABELS[rows], LOGITS[rows], WEIGHTS[rows])) for rows in (slice(2), slice(2, 4))]

    @tf.function
    def of_replicas():
        def in_replica():
            rows = 2 * tf.distribute.get_replica_context().replica_id_in_sync_group + tf.range(2)
            return loss(*(tf.gather(tf.constant(each), rows) for each in (LABELS, LOGITS, WEIGHTS)))

        return strategy.reduce("SUM", strategy.run(in_replica), axis=None)

    assert float(of_replicas()) == pytest.approx(np.mean(parts), rel=1e-6)


def test_a_loss_is_made_again_from_its_config():
    for loss in (SmoothedTokenCrossEntropy(0.2, "tokens", name="mine"), SmoothedCrossEntropy(0.1)):
        again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
        assert again.get_config() == loss.get_config() and type(again) is type(loss)


def evaluated(batches):
    """token_metrics of batches of (labels, logits, weights), as a compiled model reports them."""
    model = keras.Sequential([keras.Input((None, 7))])
    model.compile(loss="mse", weighted_metrics=token_metrics("words_"))
    for labels, logits, weights in batches:
        found = model.compute_metrics(logits, labels, logits, weights)
    return {name: float(value) for name, value in found.items()}


def test_the_metrics_of_tokens_weigh_each_alike_however_far_its_batch_is_padded():
    mean = expected(0.0) / LENGTHS.sum()
    long, short = (LABELS[:1], LOGITS[:1], WEIGHTS[:1]), (LABELS[1:, :3], LOGITS[1:, :3], WEIGHTS[1:, :3])
    found = evaluated([long, short])
    assert found["words_cross_entropy"] == pytest.approx(mean, rel=1e-5)
    assert found["words_perplexity"] == pytest.approx(np.exp(mean), rel=1e-5)
    assert evaluated([(LABELS, LOGITS, None)])["words_cross_entropy"] == pytest.approx(nats_of(0).mean(), rel=1e-5)
    of_examples = evaluated([(LABELS, LOGITS, np.float32([1, 0, 0, 3]))])["words_cross_entropy"]
    assert of_examples == pytest.approx(np.average(nats_of(0).mean(axis=1), weights=[1, 0, 0, 3]), rel=1e-5)
