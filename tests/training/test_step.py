"""The training step: replicas, micro-batches and XLA do not change it; dropout, batch normalisation, precision."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import replicated
from tfbigbatch.optimizers import keras3
from tfbigbatch.training import input_pipelines
from tfbigbatch.training.step import TrainingSteps

FEATURES, CLASSES, BATCH, STEPS = 6, 3, 16, 6


def examples(size=BATCH * STEPS):
    random = np.random.RandomState(0)
    y = random.randint(0, CLASSES, size).astype("int32")
    return (random.normal(size=(size, FEATURES)) + y[:, None]).astype("float32"), y


def iterator(strategy, data, batch=BATCH):
    """Replica r has the r-th part of each global batch."""
    dataset = tf.data.Dataset.from_tensor_slices(data).repeat().batch(batch // strategy.num_replicas_in_sync, True)
    shard = lambda context: dataset.shard(context.num_input_pipelines, context.input_pipeline_id)
    return iter(input_pipelines.distribute(strategy, shard))


def classifier(*layers):
    logits = keras.layers.Dense(CLASSES, dtype="float32", name="logits")
    return keras.Sequential([keras.Input((FEATURES,)), *layers, logits])


def compiled(strategy, network=classifier, optimizer=None, **fields):
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = network()
        fields.setdefault("loss", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        fields.setdefault(
            "weighted_metrics",
            [
                keras.metrics.SparseCategoricalCrossentropy(name="cross_entropy", from_logits=True),
                keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
            ],
        )
        # Plain SGD shows a wrong scale of the gradient, which LAMB and Adam would hide.
        optimizer = optimizer() if optimizer else keras.optimizers.SGD(0.5)
        model.compile(optimizer=optimizer, auto_scale_loss=False, **fields)
        model.optimizer.build(model.trainable_variables)
    return model


def trained(replicas=1, accumulation_steps=1, *, model=None, data=None, calls=(1, 3, 2), batch=BATCH, **options):
    """The network after some calls, and the results over all of their steps."""
    fields = {name: options.pop(name) for name in list(options) if name in ("network", "optimizer", "loss")}
    model = model or compiled(replicated(replicas), **fields)
    strategy = model.distribute_strategy
    steps = TrainingSteps(model, strategy=strategy, accumulation_steps=accumulation_steps, **options)
    batches, done = iterator(strategy, data or examples(), batch), 0
    for n in calls:
        steps(batches, done, n)
        done += n
    return model, steps.means(), steps


def weights(model):
    return [variable.numpy() for variable in model.trainable_variables]


OPTIMIZERS = {"sgd": None, "lamb": lambda: keras3.LAMB(0.02, global_clipnorm=0.5)}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(
    "replicas, accumulation_steps, jit_compile",
    [(1, 4, False), (1, 4, True), (2, 1, False), (2, 2, False), (2, 2, True), (4, 4, False)],
)
def test_replicas_and_accumulation_do_not_change_the_result(replicas, accumulation_steps, jit_compile, optimizer):
    made = OPTIMIZERS[optimizer]
    reference, expected, _ = trained(optimizer=made)
    model, found, steps = trained(replicas, accumulation_steps, optimizer=made, jit_compile=jit_compile)
    for ours, theirs in zip(weights(model), weights(reference)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    assert int(model.optimizer.iterations.numpy()) == STEPS
    assert list(found) == ["loss", "cross_entropy", "accuracy"]
    for name, value in found.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-4)
    assert steps._steps.experimental_get_tracing_count() == 1


class Drawn(keras.layers.Layer):
    """Adds what a Dropout draws for a unit to what it keeps, for each replica; without a seed, as Keras allows."""

    def __init__(self, rows, seeded):
        super().__init__()
        unseeded = lambda x, training: keras.random.dropout(x, 0.5) if training else x
        self.dropout = keras.layers.Dropout(0.5) if seeded else unseeded
        self.kept = self.add_weight(shape=(rows, 64), initializer="zeros", trainable=False, dtype="int32", name="kept")

    def call(self, x, training=False):
        mask = self.dropout(keras.ops.ones_like(x), training=training)
        self.kept.assign(2 * self.kept + keras.ops.cast(mask > 0, "int32"))
        return x


def draws(replicas, accumulation_steps=1, *, seed=3, calls=(2,), first=0, seeded=True):
    """int [replicas, rows, units]: a bit for each micro-batch of each step."""
    strategy = replicated(replicas)

    def network():
        x = keras.Input((64,))
        nested = keras.Sequential([keras.Input((64,)), Drawn(4, seeded)])
        return keras.Model(x, keras.layers.Dense(1)(nested(x)))

    model = compiled(strategy, network, loss="mse", weighted_metrics=[])
    data = np.zeros((64, 64), "float32"), np.zeros((64, 1), "float32")
    steps = TrainingSteps(model, strategy=strategy, accumulation_steps=accumulation_steps, seed=seed)
    batches = iterator(strategy, data, 4 * replicas * accumulation_steps)
    for n in calls:
        steps(batches, first, n)
        first += n
    kept = model.layers[1].layers[0].kept.value
    return np.array([copy.numpy() for copy in strategy.experimental_local_results(kept)])


@pytest.mark.parametrize("seeded", [True, False])
def test_dropout_is_a_function_of_seed_step_micro_batch_and_replica(seeded):
    drawn = functools.partial(draws, seeded=seeded)
    one, other = drawn(2, 2, calls=(2,))
    assert len(np.unique(one)) > 10
    # Bits of 2 steps with 2 micro-batches.
    masks = [[each >> bit & 1 for bit in range(4)] for each in (one, other)]
    flat = [mask for each in masks for mask in each]
    for index, mask in enumerate(flat):
        assert 0.3 < mask.mean() < 0.7
        assert all(np.mean(mask == before) < 0.7 for before in flat[:index])
    np.testing.assert_array_equal(drawn(2, 2, calls=(1, 1)), [one, other])
    # A run that goes on at step 1 draws the masks of step 1, whatever the states were.
    np.testing.assert_array_equal(drawn(2, 2, calls=(1,), first=1), np.array([one, other]) & 3)
    assert np.any(drawn(2, 2, calls=(2,), seed=4) != [one, other])


def normalised():
    return classifier(keras.layers.Dense(4), keras.layers.BatchNormalization(momentum=0.5))


@pytest.mark.parametrize("replicas, jit_compile", [(1, False), (2, False), (2, True), (4, False)])
def test_the_statistics_of_batch_normalisation_are_the_replicas_mean(replicas, jit_compile):
    options = {"network": normalised, "optimizer": lambda: keras.optimizers.SGD(0.0), "jit_compile": jit_compile}
    model, _, _ = trained(replicas, calls=(1,), **options)
    norm = next(layer for layer in model.layers if isinstance(layer, keras.layers.BatchNormalization))
    x = examples()[0][:BATCH] @ model.layers[0].get_weights()[0]
    parts = x.reshape(replicas, -1, 4)
    expected = 0.5 * parts.mean(axis=1).mean(axis=0), 0.5 + 0.5 * parts.var(axis=1).mean(axis=0)
    for variable, value in zip((norm.moving_mean, norm.moving_variance), expected):
        for copy in model.distribute_strategy.experimental_local_results(variable.value):
            np.testing.assert_allclose(copy.numpy(), value, rtol=1e-4, atol=1e-6)


def test_the_mean_leaves_frozen_weights_alone():
    from tfbigbatch.training.step import _statistics

    network = classifier(keras.layers.Dense(4, trainable=False), keras.layers.BatchNormalization())
    assert [each.name for each in _statistics(network)] == ["moving_mean", "moving_variance"]


LOSS_SCALED = {
    "ours": lambda: keras3.LossScaleOptimizer(keras3.LAMB(0.02), initial_scale=2.0**17, dynamic_growth_steps=3),
    "keras": lambda: keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(0.1), initial_scale=2.0**17, dynamic_growth_steps=3
    ),
}


@pytest.mark.parametrize("name", LOSS_SCALED)
@pytest.mark.parametrize("replicas, jit_compile", [(1, False), (2, False), (2, True)])
def test_float16_skips_steps_that_are_not_finite_on_all_replicas(name, replicas, jit_compile):
    keras.config.set_dtype_policy("mixed_float16")
    x, y = examples()
    # Of the second replica alone: its loss overflows at the first scale.
    x[BATCH - 1] = 100.0
    network = lambda: classifier(keras.layers.Dense(8, "relu"))
    model, found, _ = trained(
        replicas, network=network, optimizer=LOSS_SCALED[name], data=(x, y), calls=(4, 3), jit_compile=jit_compile
    )
    optimizer = model.optimizer
    assert 0 < int(optimizer.iterations.numpy()) < 7
    assert np.isfinite(found["loss"])
    for variable in model.trainable_variables:
        copies = [copy.numpy() for copy in model.distribute_strategy.experimental_local_results(variable.value)]
        assert np.isfinite(copies[0]).all()
        for copy in copies[1:]:
            np.testing.assert_array_equal(copy, copies[0])


def test_bfloat16_trains_as_float32_does():
    reference, _, _ = trained(calls=(6,))
    keras.config.set_dtype_policy("mixed_bfloat16")
    model, _, _ = trained(2, 2, calls=(6,))
    for ours, theirs in zip(weights(model), weights(reference)):
        assert ours.dtype == "float32"
        np.testing.assert_allclose(ours, theirs, rtol=0.1, atol=0.03)


def two_outputs():
    x = keras.Input((FEATURES,))
    dense = keras.layers.Dense
    regularised = dense(1, name="size", kernel_regularizer=keras.regularizers.L2(0.1))
    outputs = {"kind": dense(CLASSES, name="kind")(x), "size": regularised(x)}
    return keras.Model(x, outputs)


@pytest.mark.parametrize("replicas, accumulation_steps", [(1, 1), (2, 2)])
def test_two_outputs_have_a_loss_each_and_regularisers_count(replicas, accumulation_steps):
    x, y = examples()
    nats = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model = compiled(
        replicated(replicas),
        two_outputs,
        loss={"kind": nats, "size": "mse"},
        weighted_metrics={"kind": ["accuracy"], "size": []},
        optimizer=lambda: keras.optimizers.SGD(0.0),
    )
    size = y[:, None].astype("float32")
    options = {"model": model, "data": (x, {"kind": y, "size": size})}
    _, found, _ = trained(replicas, accumulation_steps, calls=(2,), **options)
    rows = slice(0, 2 * BATCH)
    outputs = {name: value.numpy() for name, value in model(x[rows]).items()}
    kind = float(nats(y[rows], outputs["kind"]))
    squares = np.mean((outputs["size"] - size[rows]) ** 2)
    penalty = 0.1 * np.sum(model.get_layer("size").get_weights()[0] ** 2)
    expected = {"loss": kind + squares + penalty, "kind_loss": kind, "size_loss": squares}
    expected["kind_accuracy"] = np.mean(outputs["kind"].argmax(axis=1) == y[rows])
    assert set(found) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5)
    assert list(trained(1, model=compiled(replicated(1)), metrics_in_training=False)[1]) == ["loss"]


class Penalised(keras.layers.Layer):
    def call(self, x):
        self.add_loss(keras.ops.mean(x**2))
        return x


@pytest.mark.parametrize("replicas", [1, 2])
def test_what_layers_add_to_the_loss_is_trained(replicas):
    reference, _, _ = trained(network=lambda: classifier(Penalised(), keras.layers.Dense(4), Penalised()))
    model, found, _ = trained(replicas, 2, network=lambda: classifier(Penalised(), keras.layers.Dense(4), Penalised()))
    plain, of_plain, _ = trained(network=lambda: classifier(keras.layers.Dense(4)))
    assert found["loss"] > of_plain["loss"] + 1
    assert np.abs(weights(model)[0] - weights(plain)[0]).max() > 0.01
    for ours, theirs in zip(weights(model), weights(reference)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_an_embedding_is_clipped_by_the_norm_of_its_whole_gradient():
    # One word eight times: its eight rows sum to a norm of 8 times, not root 8 times, each one's.
    def network():
        embedding = keras.layers.Embedding(3, 2, embeddings_initializer="zeros")
        return keras.Sequential([keras.Input((8,), dtype="int32"), embedding])

    model = compiled(
        replicated(1),
        network,
        lambda: keras.optimizers.SGD(1.0, global_clipnorm=0.5),
        loss=lambda y, y_pred: keras.ops.sum(y_pred, axis=(1, 2)),
        weighted_metrics=[],
    )
    trained(model=model, data=(np.ones((1, 8), "int32"), np.zeros((1, 8), "float32")), batch=1, calls=(1,))
    np.testing.assert_allclose(weights(model)[0][1], [-0.5 / np.sqrt(2)] * 2, rtol=1e-5)


class Largest(keras.metrics.Metric):
    """The largest output so far."""

    def __init__(self):
        super().__init__(name="largest")
        self.value = self.add_variable((), "zeros", name="value")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.value.assign(keras.ops.maximum(self.value, keras.ops.max(y_pred)))

    def result(self):
        return self.value


def test_a_metric_whose_variables_do_not_add_up_is_refused_by_name():
    model = compiled(replicated(1), weighted_metrics=[keras.metrics.SparseCategoricalAccuracy(), Largest()])
    with pytest.raises(ValueError, match="metric 'largest': the variables of two batches together"):
        trained(model=model)


def test_buckets_are_branches_of_one_trace():
    data = examples()
    features = {"x": data[0], "bucket": np.repeat(np.arange(BATCH * STEPS // 8) % 2, 8).astype("int32")}

    class OfX(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(CLASSES)
            self.dense.build((None, FEATURES))

        def call(self, features):
            return self.dense(features["x"])

    def cut(size):
        return lambda batch: ({"x": batch[0]["x"][:size]}, batch[1][:size])

    model = compiled(replicated(1), OfX, lambda: keras.optimizers.SGD(0.0))
    options = {"data": (features, data[1]), "accumulation_steps": 2, "calls": (1,), "model": model}
    _, found, _ = trained(batch_slices=[cut(3), cut(8)], **options)
    rows = [0, 1, 2, *range(8, 16)]
    logits = data[0][rows] @ weights(model)[0] + weights(model)[1]
    expected = keras.losses.sparse_categorical_crossentropy(data[1][rows], logits, from_logits=True)
    np.testing.assert_allclose(found["loss"], np.mean(expected), rtol=1e-5)
