"""The training step with accumulation, and evaluation under a mask, under strategies."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.conftest import replicated
from tfbigbatch import keras2
from tfbigbatch.data.in_memory.arrays import Arrays
from tfbigbatch.training import input_pipelines
from tfbigbatch.training.train_step import TrainingModel


def data(size=30):
    random = np.random.RandomState(0)
    labels = random.randint(0, 3, size).astype(np.int32)
    images = random.randint(0, 50, (size, 6)) + 60 * labels[:, None]
    return Arrays(images.astype(np.uint8), labels, 3, "test")


def compiled(
    strategy, accumulation_steps=1, optimizer=None, jit_compile=False, steps_per_execution=1, normalised=False
):
    tf_keras.utils.set_random_seed(1)
    with strategy.scope():
        images = tf_keras.Input((6,), dtype="uint8")
        scaled = tf_keras.layers.Rescaling(1 / 255)(images)
        if normalised:
            scaled = tf_keras.layers.BatchNormalization()(tf_keras.layers.Dense(8)(scaled))
        network = tf_keras.Model(images, tf_keras.layers.Dense(3, dtype="float32")(scaled))
        model = TrainingModel(network, accumulation_steps)
        model.compile(
            jit_compile=jit_compile,
            steps_per_execution=steps_per_execution,
            # Plain SGD shows a wrong scale of the gradient, which LAMB and Adam would hide.
            optimizer=optimizer() if optimizer else tf_keras.optimizers.SGD(0.5),
            loss=tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            weighted_metrics=[
                tf_keras.metrics.SparseCategoricalCrossentropy(name="cross_entropy", from_logits=True),
                tf_keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
            ],
        )
    return model


def fitted(strategy, accumulation_steps=1, optimizer=None, jit_compile=False, model=None):
    model = model or compiled(strategy, accumulation_steps, optimizer, jit_compile)
    batches = input_pipelines.distribute(
        strategy, lambda context: data().training_batches(context, batch_size=16, seed=0, first_step=0, last_step=10)
    )
    history = model.fit(batches, steps_per_epoch=10, verbose=0).history
    return model, history


@pytest.mark.parametrize("optimizer", [None, lambda: keras2.LAMB(0.02, global_clipnorm=0.5)])
@pytest.mark.parametrize(
    "replicas, accumulation_steps, jit_compile",
    [(1, 4, False), (1, 4, True), (2, 1, False), (2, 2, False), (4, 4, False)],
)
def test_replicas_and_accumulation_do_not_change_the_result(replicas, accumulation_steps, jit_compile, optimizer):
    reference, expected = fitted(replicated(1), 1, optimizer)
    model, history = fitted(replicated(replicas), accumulation_steps, optimizer, jit_compile)
    for ours, theirs in zip(model.get_weights(), reference.get_weights()):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    assert int(model.optimizer.iterations.numpy()) == 10
    for name in ("loss", "cross_entropy", "accuracy"):
        np.testing.assert_allclose(history[name], expected[name], rtol=1e-4)


@pytest.mark.parametrize("replicas", [1, 2, 4])
@pytest.mark.parametrize("batch_size", [4, 12, 64])
def test_evaluation_is_exact_at_any_batch_size(replicas, batch_size):
    examples = data()
    strategy = replicated(replicas)
    model = compiled(strategy)
    logits = model.network.predict(examples.features, verbose=0)
    right = np.argmax(logits, axis=1) == examples.labels
    exact = tf_keras.losses.sparse_categorical_crossentropy(examples.labels, logits, from_logits=True).numpy().mean()
    batches = input_pipelines.distribute(
        strategy, lambda context: examples.evaluation_batches(context, batch_size=batch_size)
    )
    result = model.evaluate(batches, steps=examples.evaluation_steps(batch_size), verbose=0, return_dict=True)
    np.testing.assert_allclose(result["accuracy"], right.mean(), rtol=1e-6)
    np.testing.assert_allclose(result["cross_entropy"], exact, rtol=1e-5)


@pytest.mark.parametrize("replicas, jit_compile", [(1, False), (1, True), (2, False)])
def test_kept_batches_have_the_same_bits_as_those_that_are_read_again(replicas, jit_compile):
    """With batch normalisation, and padding in the last batch; before and after training."""
    strategy, examples = replicated(replicas), data()
    model = compiled(strategy, jit_compile=jit_compile, normalised=True)
    steps = examples.evaluation_steps(12)
    batches = input_pipelines.held_out(
        strategy, lambda context: examples.evaluation_batches(context, batch_size=12), steps
    )
    assert isinstance(batches, input_pipelines.KeptBatches)
    found = []
    for _ in range(2):
        kept = model.evaluate_kept(batches)
        assert kept == model.evaluate(batches.batches, steps=steps, verbose=0, return_dict=True)
        assert list(kept) == ["cross_entropy", "accuracy"]
        assert all(type(value) is float for value in kept.values())
        found.append(kept)
        fitted(strategy, model=model)
    assert found[0] != found[1]


def test_an_embedding_is_clipped_by_the_norm_of_its_whole_gradient():
    # One word eight times: its eight rows sum to a norm of 8 times, not root 8 times, each one's.
    words = tf_keras.Input((8,), dtype="int32")
    out = tf_keras.layers.Embedding(3, 2, embeddings_initializer="zeros")(words)
    model = TrainingModel(tf_keras.Model(words, out))
    model.compile(tf_keras.optimizers.SGD(1.0, global_clipnorm=0.5), loss=lambda y, y_pred: tf.reduce_sum(y_pred))
    model.fit(np.ones((1, 8), np.int32), np.zeros((1, 8)), verbose=0)
    np.testing.assert_allclose(model.get_weights()[0][1], [-0.5 / np.sqrt(2)] * 2, rtol=1e-5)


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_loop_of_steps_is_traced_once_for_whole_and_partial_loops(replicas, monkeypatch):
    """Keras' own loop traces the step twice: once for the shapes of what it returns."""
    calls = collections.Counter()

    def counted(name):
        original = getattr(TrainingModel, name)

        def step(self, data):
            calls[name] += 1
            return original(self, data)

        monkeypatch.setattr(TrainingModel, name, step)

    counted("train_step")
    counted("test_step")
    strategy = replicated(replicas)

    def built(steps_per_execution):
        model = compiled(strategy, steps_per_execution=steps_per_execution)
        with strategy.scope():
            model.optimizer.build(model.network.trainable_variables)
        return model

    expected, history = fitted(strategy, model=built(1))
    assert calls["train_step"] == strategy.num_replicas_in_sync
    looped, looped_history = fitted(strategy, model=built(4))
    assert calls["train_step"] == 2 * strategy.num_replicas_in_sync
    assert looped.train_tf_function.experimental_get_tracing_count() == 1
    assert int(looped._train_counter.numpy()) == 10
    np.testing.assert_equal(looped.get_weights(), expected.get_weights())
    assert looped_history == history
    values = []
    for model in (expected, looped):
        batches = input_pipelines.distribute(strategy, lambda context: data().evaluation_batches(context, batch_size=4))
        calls.clear()
        for _ in range(2):
            values.append(model.evaluate(batches, steps=data().evaluation_steps(4), verbose=0, return_dict=True))
        assert calls["test_step"] == strategy.num_replicas_in_sync
    assert all(each == values[0] for each in values)
