"""An evaluation counts every example once, whatever the batches and replicas; averages and fresh statistics."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import replicated
from tests.training.test_step import BATCH, classifier, compiled, examples, iterator, normalised, trained, weights
from tfbigbatch.data.in_memory.arrays import Arrays
from tfbigbatch.optimizers import keras3
from tfbigbatch.training import input_pipelines
from tfbigbatch.training.averages import weight_averages
from tfbigbatch.training.evaluation_step import EvaluationStep
from tfbigbatch.training.fresh_statistics import FreshStatistics

SIZE = 30


def held_out(strategy, batch_size):
    """The batches of an evaluation, with padding in the last."""
    data = Arrays(*(array[:SIZE] for array in examples()), 3, "test")
    made = input_pipelines.distribute(strategy, lambda context: data.evaluation_batches(context, batch_size=batch_size))
    batches = iter(made)
    return [next(batches) for _ in range(data.evaluation_steps(batch_size))]


def nothing(number):
    """After a batch."""


@pytest.mark.parametrize("replicas, jit_compile", [(1, False), (1, True), (2, False), (2, True), (4, False)])
@pytest.mark.parametrize("batch_size", [4, 12, 64])
def test_evaluation_is_exact_at_any_batch_size(replicas, jit_compile, batch_size):
    strategy, numbers = replicated(replicas), []
    model = compiled(strategy)
    logits = examples()[0][:SIZE] @ weights(model)[0] + weights(model)[1]
    labels = examples()[1][:SIZE]
    nats = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    step, batches = EvaluationStep(model, strategy=strategy, jit_compile=jit_compile), held_out(strategy, batch_size)
    for _ in range(2):
        result = step.metrics(batches, numbers.append)
        assert list(result) == ["cross_entropy", "accuracy"]
        np.testing.assert_allclose(result["accuracy"], np.mean(logits.argmax(axis=1) == labels), rtol=1e-6)
        np.testing.assert_allclose(result["cross_entropy"], np.mean(nats), rtol=1e-5)
    assert numbers == 2 * list(range(len(batches) + 1))


class Noise(keras.layers.Layer):
    """Draws without a seed, in evaluations too."""

    def call(self, x):
        return x + keras.random.normal(keras.ops.shape(x))


@pytest.mark.parametrize("replicas", [1, 2])
def test_draws_without_a_seed_are_the_same_in_each_evaluation(replicas):
    strategy = replicated(replicas)
    model = compiled(strategy, lambda: classifier(Noise(), keras.layers.BatchNormalization()))
    step, batches = EvaluationStep(model, strategy=strategy), held_out(strategy, 12)
    assert step.metrics(batches, nothing) == step.metrics(batches, nothing)
    FreshStatistics(model, strategy, nothing).recompute([batch[:2] for batch in batches])


class Unweighted(keras.metrics.Mean):
    """The mean of the labels; of no use under a mask."""

    def update_state(self, y_true, y_pred, sample_weight=None):
        assert sample_weight is None
        super().update_state(y_true)


@pytest.mark.parametrize("replicas", [1, 4])
def test_real_examples_are_those_without_padding(replicas):
    strategy = replicated(replicas)
    model = compiled(strategy, weighted_metrics=[Unweighted(name="labels")])

    def real(labels, outputs, mask):
        rows = tf.where(mask > 0)[:, 0]
        return tf.gather(labels, rows), tf.gather(outputs, rows), None

    # Of the last batch of 28 examples in 64, most replicas have none.
    found = EvaluationStep(model, strategy=strategy, real_examples=real).metrics(held_out(strategy, 64), nothing)
    np.testing.assert_allclose(found["labels"], examples()[1][:SIZE].mean(), rtol=1e-6)


@pytest.mark.parametrize("replicas, batch_size", [(1, 8), (4, 12)])
def test_outputs_come_in_the_order_of_the_examples(replicas, batch_size):
    strategy = replicated(replicas)
    model = compiled(strategy)
    expected = examples()[0][:SIZE] @ weights(model)[0] + weights(model)[1]
    batches = held_out(strategy, batch_size)
    outputs = EvaluationStep(model, strategy=strategy).outputs(batches, nothing)
    np.testing.assert_allclose(outputs[:SIZE], expected, rtol=1e-5, atol=1e-6)
    doubled = EvaluationStep(model, strategy=strategy, predictions=lambda network, x: {"twice": 2 * network(x)})
    np.testing.assert_allclose(doubled.outputs(batches, nothing)["twice"][:SIZE], 2 * expected, rtol=1e-5, atol=1e-6)


AVERAGED = {
    "ours": lambda: keras3.LAMB(0.02, use_ema=True, ema_momentum=0.75),
    "keras": lambda: keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.75),
}


@pytest.mark.parametrize("name", AVERAGED)
def test_averages_are_evaluated_and_the_weights_come_back(name, tmp_path):
    after = [weights(trained(optimizer=AVERAGED[name], calls=(n,))[0]) for n in (1, 2)]
    expected = [0.75 * one + 0.25 * two for one, two in zip(*after)]
    model, _, _ = trained(2, optimizer=AVERAGED[name], calls=(2,))
    averages, before = weight_averages(model), weights(model)
    part = averages.checkpoint_part()
    with averages.in_place_of_weights():
        for ours, mean in zip(weights(model), expected):
            np.testing.assert_allclose(ours, mean, rtol=1e-4, atol=1e-6)
        # A checkpoint of this moment has the weights.
        part.before_save()
        path = tf.train.Checkpoint(network=model, **part.more).write(str(tmp_path / "checkpoint"))
        part.after_save()
        np.testing.assert_allclose(weights(model)[0], expected[0], rtol=1e-4, atol=1e-6)
    np.testing.assert_equal(weights(model), before)
    other = compiled(replicated(1), optimizer=AVERAGED[name])
    tf.train.Checkpoint(network=other, **weight_averages(other).checkpoint_part().more).read(path).assert_consumed()
    np.testing.assert_equal(weights(other), before)
    assert weight_averages(compiled(replicated(1))) is None


@pytest.mark.parametrize("replicas", [1, 4])
def test_fresh_statistics_are_means_over_training_batches(replicas):
    strategy = replicated(replicas)
    network = lambda: classifier(*normalised().layers[:2], keras.layers.Dropout(0.5))
    model, _, _ = trained(model=compiled(strategy, network))
    before = [variable.numpy() for variable in model.variables]
    batches = iterator(strategy, examples())
    FreshStatistics(model, strategy, nothing).recompute([next(batches) for _ in range(3)])
    norm = next(layer for layer in model.layers if isinstance(layer, keras.layers.BatchNormalization))
    assert norm.momentum == 0.5
    seen = examples()[0][: 3 * BATCH] @ weights(model)[0] + weights(model)[1]
    np.testing.assert_allclose(norm.moving_mean, seen.mean(axis=0), rtol=1e-4, atol=1e-6)
    parts = seen.reshape(3 * replicas, -1, 4)
    np.testing.assert_allclose(norm.moving_variance, parts.var(axis=1).mean(axis=0), rtol=1e-4)
    changed = [v.path for v, old in zip(model.variables, before) if not np.array_equal(v.numpy(), old)]
    assert changed == [norm.moving_mean.path, norm.moving_variance.path]
