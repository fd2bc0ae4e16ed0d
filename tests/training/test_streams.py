"""Streams with carried state: replicas, accumulation and the number of streams do not change it."""

import itertools
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import replicated
from tests.helpers.networks_in_numpy import cross_entropies
from tfbigbatch.data.language_model import corpus
from tfbigbatch.data.language_model.contiguous_batches import Streams
from tfbigbatch.training import input_pipelines
from tfbigbatch.training.evaluation_step import EvaluationStep
from tfbigbatch.training.step import TrainingSteps
from tfbigbatch.training.streams import StreamStates

STREAMS = 8
# 399 predictions in 8 streams of 50: windows of 6 that an epoch's end and the text's end cut short.
TEXT = Streams(corpus.fake().train[:400], 12, 6, "test")
EPOCH = TEXT.examples_in_epoch(STREAMS) // STREAMS


def language_model(dropout=0.0):
    """From tokens and states to logits and states."""
    tokens = keras.Input((6,), dtype="int32")
    states = [keras.Input((7,)) for _ in range(4)]
    uniform = keras.initializers.RandomUniform
    values, after = keras.layers.Embedding(12, 5, embeddings_initializer=uniform(-0.5, 0.5))(tokens), []
    scaled = {f"{name}_initializer": uniform(-0.5, 0.5) for name in ("kernel", "recurrent", "bias")}
    for layer in range(2):
        lstm = keras.layers.LSTM(7, return_sequences=True, return_state=True, unit_forget_bias=False, **scaled)
        values = keras.layers.Dropout(dropout)(values)
        values, *mine = lstm(values, initial_state=states[2 * layer : 2 * layer + 2])
        after += mine
    dense = {f"{name}_initializer": uniform(-0.5, 0.5) for name in ("kernel", "bias")}
    logits = keras.layers.Dense(12, **dense)(values)
    return keras.Model([tokens, *states], [logits, *after])


class MeanOfTokens(keras.metrics.Mean):
    """Nats of each token with a weight."""

    def update_state(self, y_true, y_pred, sample_weight=None):
        nats = keras.losses.sparse_categorical_crossentropy(y_true, y_pred, from_logits=True)
        weights = None if sample_weight is None else keras.ops.reshape(sample_weight, [-1])
        super().update_state(keras.ops.reshape(nats, [-1]), weights)


def compiled(strategy, *, rate=2.0, dropout=0.0, seed=1):
    keras.utils.set_random_seed(seed)
    with strategy.scope():
        model = language_model(dropout)
        model.compile(
            optimizer=keras.optimizers.SGD(rate, global_clipnorm=0.2),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            weighted_metrics=[MeanOfTokens(name="cross_entropy")],
        )
        model.optimizer.build(model.trainable_variables)
    return model


def batches_of(strategy, first_step=0, last_step=EPOCH + 4):
    fields = {"batch_size": STREAMS, "seed": 0, "first_step": first_step, "last_step": last_step}
    return iter(input_pipelines.distribute(strategy, lambda context: TEXT.training_batches(context, **fields)))


def steps_of(model, accumulation_steps=1, **options):
    strategy = model.distribute_strategy
    with strategy.scope():
        streams = StreamStates(model, STREAMS)
    fields = {"accumulation_steps": accumulation_steps, "metrics_in_training": False, "streams": streams}
    return TrainingSteps(model, strategy=strategy, **fields, **options), streams


def fitted(strategy, accumulation_steps=1, steps=EPOCH + 4, *, jit_compile=False, **settings):
    model = compiled(strategy, **settings)
    run, _ = steps_of(model, accumulation_steps, jit_compile=jit_compile)
    batches, losses = batches_of(strategy), []
    for step in range(steps):
        run.begin_window()
        run(batches, step, 1)
        assert list(run.means()) == ["loss"]
        losses.append(run.means()["loss"])
    return model, losses


def weights_of(model):
    return [variable.numpy() for variable in model.trainable_variables]


@pytest.fixture(scope="module")
def reference():
    model, losses = fitted(replicated(1))
    assert losses[-1] < losses[0] - 0.04
    return weights_of(model), losses


@pytest.mark.parametrize(
    "replicas, accumulation_steps, jit_compile",
    [
        pytest.param(1, 4, False, marks=pytest.mark.slow),
        (2, 2, False),
        pytest.param(4, 1, False, marks=pytest.mark.slow),
        (2, 1, True),
    ],
)
def test_replicas_accumulation_and_xla_do_not_change_the_run(reference, replicas, accumulation_steps, jit_compile):
    weights, curve = reference
    model, losses = fitted(replicated(replicas), accumulation_steps, jit_compile=jit_compile)
    np.testing.assert_allclose(losses, curve, rtol=1e-5)
    for ours, theirs in zip(weights_of(model), weights):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("replicas", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_windows_are_one_unbroken_sequence_for_each_stream(replicas):
    # At rate 0 an epoch is a long forward pass of each stream.
    model, losses = fitted(replicated(replicas), steps=EPOCH, rate=0.0)
    weights, parts = weights_of(model), [TEXT.tokens[i * 50 : i * 50 + 51] for i in range(STREAMS)]
    exact = np.concatenate([cross_entropies(weights, part) for part in parts])
    assert len(exact) == TEXT.predictions
    # The loss is the mean over the windows whole; the metrics, which leave the padding out, are of evaluation alone.
    np.testing.assert_allclose(np.mean(losses), exact.sum() / (EPOCH * STREAMS * 6), rtol=1e-5)


@pytest.mark.parametrize("replicas, batch_size", [(1, 1), (1, 3), (2, 8), pytest.param(4, 16, marks=pytest.mark.slow)])
def test_an_evaluation_is_that_of_the_whole_text(reference, replicas, batch_size):
    strategy = replicated(replicas)
    model = compiled(strategy)
    for variable, value in zip(model.trainable_variables, reference[0]):
        variable.assign(value)
    batches = input_pipelines.distribute(
        strategy, lambda context: TEXT.evaluation_batches(context, batch_size=batch_size)
    )
    exact = cross_entropies(reference[0], TEXT.tokens)
    with strategy.scope():
        evaluation = EvaluationStep(model, strategy=strategy, streams=StreamStates(model, batch_size))
    for _ in range(2):
        read = itertools.islice(iter(batches), TEXT.evaluation_steps(batch_size))
        result = evaluation.metrics(read, lambda number: None)
        # Several streams know their past from the burn-in alone; one stream knows it all.
        np.testing.assert_allclose(result["cross_entropy"], exact.mean(), rtol=1e-5 if batch_size == 1 else 1e-3)


@pytest.mark.parametrize("replicas, accumulation_steps", [(1, 1), (2, 2)])
def test_stopped_in_a_stream_and_resumed_it_ends_in_the_same_bits(tmp_path, replicas, accumulation_steps):
    """With dropout, and another seed in the process that goes on."""
    ends, path = [], None
    for parts in ([(0, 7)], [(0, 4), (4, 7)]):
        for number, (first, last) in enumerate(parts):
            strategy = replicated(replicas)
            model = compiled(strategy, dropout=0.3, seed=number)
            steps, streams = steps_of(model, accumulation_steps)
            part = streams.checkpoint_part()
            checkpoint = tf.train.Checkpoint(network=model, optimizer=model.optimizer, **part.more)
            if first:
                checkpoint.read(path).assert_consumed()
                part.after_restore()
            steps(batches_of(strategy, first, 7), first, last - first)
            part.before_save()
            path = checkpoint.write(str(tmp_path / f"{len(parts)}-{last}"))
        ends.append([variable.numpy() for variable in [*model.trainable_variables, *model.optimizer.variables]])
    np.testing.assert_equal(*ends)


def of_sizes(*sizes):
    """A stand-in for a network that has states alone."""
    states = [keras.Input((size,)) for size in sizes]
    return StreamStates(types.SimpleNamespace(inputs=[None, *states]), STREAMS)


@pytest.mark.parametrize("writers, readers", [(1, 4), (4, 2), (2, 1)])
def test_the_states_of_some_replicas_are_read_by_any_number(writers, readers):
    numbers = np.random.RandomState(0).normal(size=(STREAMS, 3)).astype(np.float32)
    with replicated(writers).scope():
        one = of_sizes(3)
    with replicated(readers).scope():
        other = of_sizes(3)
    for carried in (one, other):
        (held,) = carried.checkpoint_part().more.values()
        held[0].assign(numbers)
        carried.spread(held)
        held[0].assign(tf.zeros_like(held[0]))
        carried.gather(held)
        np.testing.assert_array_equal(held[0], numbers)


def test_a_stream_that_begins_forgets_even_what_is_not_finite():
    carried = of_sizes(3, 2)
    carried.write(tf.constant([1, 2]), [tf.fill([2, 3], float("nan")), tf.cast(tf.fill([2, 2], 2.0), tf.bfloat16)])
    first, second = carried.read(tf.constant([2, 3]), tf.constant([True, False]))
    np.testing.assert_array_equal(first, np.zeros((2, 3)))
    np.testing.assert_array_equal(carried.read(tf.constant([2]), tf.constant([False]))[1], [[2, 2]])
    assert second.dtype == tf.float32
