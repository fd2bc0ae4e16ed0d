"""Language modelling with carried state: replicas, accumulation and the number of streams do not change it."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.conftest import replicated
from tests.helpers.networks_in_numpy import cross_entropies
from tfbigbatch.data.language_model import corpus
from tfbigbatch.data.language_model.contiguous_batches import StreamStates
from tfbigbatch.models.lstm_language_model import lstm_language_model
from tfbigbatch.tasks.losses import Perplexity
from tfbigbatch.training import input_pipelines
from tfbigbatch.training.carried_state import CarriedState, StatefulTrainingModel

STREAMS = 8
# 399 predictions in 8 streams of 50: windows of 6 that an epoch's end and the text's end cut short.
TEXT = StreamStates(corpus.fake().train[:400], 12, 6, "test")
EPOCH = TEXT.examples_in_epoch(STREAMS) // STREAMS


def compiled(strategy, accumulation_steps=1, *, rate=2.0, evaluation_batch_size=STREAMS, jit_compile=False):
    tf_keras.utils.set_random_seed(1)
    with strategy.scope():
        cross_entropy = tf_keras.metrics.SparseCategoricalCrossentropy(name="cross_entropy", from_logits=True)
        network = lstm_language_model(
            vocabulary_size=12, window=6, hidden_units=7, embedding_units=5, layers=2, initial_scale=0.5
        )
        model = StatefulTrainingModel(
            network, accumulation_steps, batch_size=STREAMS, evaluation_batch_size=evaluation_batch_size
        )
        model.compile(
            optimizer=tf_keras.optimizers.SGD(rate, global_clipnorm=0.2),
            loss=tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            weighted_metrics=[cross_entropy, Perplexity(cross_entropy)],
            jit_compile=jit_compile,
        )
    return model


def fitted(strategy, accumulation_steps=1, steps=EPOCH + 4, **settings):
    model = compiled(strategy, accumulation_steps, **settings)
    batches = input_pipelines.distribute(
        strategy,
        lambda context: TEXT.training_batches(context, batch_size=STREAMS, seed=0, first_step=0, last_step=steps),
    )
    curve = tf_keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: losses.append(logs["loss"]))
    losses = []
    history = model.fit(batches, steps_per_epoch=steps, verbose=0, callbacks=[curve]).history
    return model, losses, history


@pytest.fixture(scope="module")
def reference():
    model, losses, _ = fitted(replicated(1))
    assert losses[-1] < losses[0] - 0.1
    return model.network.get_weights(), losses


@pytest.mark.parametrize(
    "replicas, accumulation_steps, jit_compile",
    [
        pytest.param(1, 4, False, marks=pytest.mark.slow),
        (2, 2, False),
        pytest.param(4, 1, False, marks=pytest.mark.slow),
        pytest.param(1, 1, True, marks=pytest.mark.slow),
    ],
)
def test_replicas_accumulation_and_xla_do_not_change_the_run(reference, replicas, accumulation_steps, jit_compile):
    weights, curve = reference
    model, losses, _ = fitted(replicated(replicas), accumulation_steps, jit_compile=jit_compile)
    np.testing.assert_allclose(losses, curve, rtol=1e-5)
    for ours, theirs in zip(model.network.get_weights(), weights):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("replicas", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_windows_are_one_unbroken_sequence_for_each_stream(replicas):
    # At rate 0 an epoch is a long forward pass of each stream.
    model, _, history = fitted(replicated(replicas), steps=EPOCH, rate=0.0)
    weights, parts = model.network.get_weights(), [TEXT.tokens[i * 50 : i * 50 + 51] for i in range(STREAMS)]
    exact = np.concatenate([cross_entropies(weights, part) for part in parts])
    assert len(exact) == TEXT.predictions
    # The loss is the mean over the windows whole; the metrics, which leave the padding out, are of evaluation alone.
    assert set(history) == {"loss"}
    np.testing.assert_allclose(history["loss"], exact.sum() / (EPOCH * STREAMS * 6), rtol=1e-5)


@pytest.mark.parametrize("replicas, batch_size", [(1, 1), (1, 3), (2, 8), pytest.param(4, 16, marks=pytest.mark.slow)])
def test_the_perplexity_of_an_evaluation_is_that_of_the_whole_text(reference, replicas, batch_size):
    strategy = replicated(replicas)
    model = compiled(strategy, evaluation_batch_size=batch_size)
    model.network.set_weights(reference[0])
    batches = input_pipelines.distribute(
        strategy, lambda context: TEXT.evaluation_batches(context, batch_size=batch_size)
    )
    exact = cross_entropies(reference[0], TEXT.tokens)
    for _ in range(2):
        steps = TEXT.evaluation_steps(batch_size)
        result = model.evaluate(batches, steps=steps, verbose=0, return_dict=True)
        # Several streams know their past from the burn-in alone; one stream knows it all.
        rtol = 1e-5 if batch_size == 1 else 1e-3
        np.testing.assert_allclose(result["cross_entropy"], exact.mean(), rtol=rtol)
        np.testing.assert_allclose(result["perplexity"], np.exp(exact.mean()), rtol=rtol)
        count = next(metric for metric in model.metrics if metric.name == "cross_entropy").count
        assert sum(float(part) for part in strategy.experimental_local_results(count)) == TEXT.predictions


@pytest.mark.parametrize("writers, readers", [(1, 4), (4, 2), (2, 1)])
def test_the_states_of_some_replicas_are_read_by_any_number(writers, readers):
    numbers = np.random.RandomState(0).normal(size=(STREAMS, 3)).astype(np.float32)
    with replicated(writers).scope():
        one = CarriedState([3], STREAMS)
    with replicated(readers).scope():
        other = CarriedState([3], STREAMS)
    for carried in (one, other):
        held = carried.gathered()
        held[0].assign(numbers)
        carried.spread(held)
        held[0].assign(tf.zeros_like(held[0]))
        carried.gather(held)
        np.testing.assert_array_equal(held[0], numbers)


def test_a_stream_that_begins_forgets_even_what_is_not_finite():
    carried = CarriedState([3, 2], 4)
    carried.write(tf.constant([1, 2]), [tf.fill([2, 3], float("nan")), tf.cast(tf.fill([2, 2], 2.0), tf.bfloat16)])
    first, second = carried.read(tf.constant([2, 3]), tf.constant([True, False]))
    np.testing.assert_array_equal(first, np.zeros((2, 3)))
    np.testing.assert_array_equal(carried.read(tf.constant([2]), tf.constant([False]))[1], [[2, 2]])
    assert second.dtype == tf.float32
