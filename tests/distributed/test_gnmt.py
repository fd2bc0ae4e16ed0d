"""GNMT on several replicas, with micro-batches, and compiled: the same updates as on one device."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.conftest import replicated
from tfbigbatch.models.gnmt import gnmt
from tfbigbatch.tasks.losses import SmoothedTokenCrossEntropy
from tfbigbatch.training.train_step import TrainingModel


def made_up_batch(sentences=16):
    random = np.random.RandomState(0)
    lengths = random.randint(1, 7, sentences).astype(np.int32)
    source = np.where(np.arange(6) < lengths[:, None], random.randint(3, 11, (sentences, 6)), 0).astype(np.int32)
    labels = random.randint(2, 11, (sentences, 5)).astype(np.int32)
    target = np.concatenate([np.ones([sentences, 1], np.int32), labels[:, :-1]], axis=1)
    weights = (np.arange(5) < random.randint(1, 6, sentences)[:, None]).astype(np.float32)
    return {"source_ids": source, "source_lengths": lengths, "target_ids": target}, labels, weights


def trained(strategy, accumulation_steps, jit_compile, weights=None):
    """The weights before and after two updates."""
    with strategy.scope():
        network = gnmt(
            vocabulary_size=11, hidden_units=5, encoder_layers=1, decoder_layers=2, dropout=0.0, initial_scale=0.7,
            source_length=6, target_length=5,
        )  # fmt: skip
        if weights is not None:
            network.set_weights(weights)
        weights = network.get_weights()
        model = TrainingModel(network, accumulation_steps=accumulation_steps)
        model.compile(tf_keras.optimizers.SGD(0.1), loss=SmoothedTokenCrossEntropy(0.1), jit_compile=jit_compile)
    batches = tf.data.Dataset.from_tensor_slices(made_up_batch()).batch(16, drop_remainder=True).repeat(2)
    model.fit(batches, epochs=1, verbose=0)
    return weights, network.get_weights()


@pytest.fixture(scope="module")
def on_one_device():
    return trained(replicated(1), 1, False)


@pytest.mark.slow
@pytest.mark.parametrize("replicas, accumulation_steps, jit_compile", [(2, 1, False), (2, 2, False), (1, 4, True)])
def test_replicas_micro_batches_and_xla_change_no_update(on_one_device, replicas, accumulation_steps, jit_compile):
    before, expected = on_one_device
    _, found = trained(replicated(replicas), accumulation_steps, jit_compile, before)
    for ours, theirs, start in zip(found, expected, before):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
        assert np.abs(theirs - start).max() > 0
