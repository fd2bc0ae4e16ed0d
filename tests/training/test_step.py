"""The training step: replicas, micro-batches and XLA do not change it; dropout, batch normalisation, precision."""

import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import replicated
from tfbigbatch.optimizers import keras3
from tfbigbatch.training.step import TrainingSteps

FEATURES, CLASSES, BATCH, STEPS = 6, 3, 16, 6


def examples(size=BATCH * STEPS):
    random = np.random.RandomState(0)
    y = random.randint(0, CLASSES, size).astype("int32")
    return (random.normal(size=(size, FEATURES)) + y[:, None]).astype("float32"), y


def iterator(strategy, data, batch=BATCH):
    """Replica r has the r-th part of each global batch."""
    dataset = tf.data.Dataset.from_tensor_slices(data).repeat().batch(batch // strategy.num_replicas_in_sync, True)
    return iter(strategy.distribute_datasets_from_function(lambda _: dataset))


def classifier(*layers):
    return keras.Sequential([keras.Input((FEATURES,)), *layers, keras.layers.Dense(CLASSES, dtype="float32")])


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
    strategy = replicated(replicas)
    fields = {name: options.pop(name) for name in list(options) if name in ("network", "optimizer", "loss")}
    model = model or compiled(strategy, **fields)
    steps = TrainingSteps(model, strategy=strategy, accumulation_steps=accumulation_steps, **options)
    batches, totals, done = iterator(strategy, data or examples(), batch), 0.0, 0
    for n in calls:
        totals, done = totals + steps(batches, done, n), done + n
    return model, steps.results(totals), steps


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
