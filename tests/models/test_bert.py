"""BERT's networks: published sizes, dropout, padding, saving and recomputation."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.recorded import networks
from tfbigbatch.models import bert, sizes

SIZES = networks.BERT
NETWORKS = [name for name in networks.NETWORKS if name.startswith("bert") and "mixed" not in name]


def built(name, **fields):
    builder, own = networks.NETWORKS[name]
    keras.utils.set_random_seed(0)
    network = builder(**{**own, **fields})
    # Every layer counts: in the initial values the embeddings' sum is small beside the normalisation of it.
    network.set_weights(
        [each + 0.1 * np.random.default_rng(0).normal(size=each.shape) for each in network.get_weights()]
    )
    return network


def features(name):
    return {key: tf.constant(value) for key, value in networks.inputs_of(name).items()}


@pytest.mark.parametrize(
    "name, encoder, heads",
    # Heads: the masked words' has 622,650 parameters, the other 1,538.
    [("bert_tiny", 4_385_920, None), pytest.param("bert_base", 109_482_240, 622_650 + 1_538, marks=pytest.mark.slow)],
)
def test_the_published_parameters(name, encoder, heads):
    network = bert.pretrainer(vocabulary_size=30522, **sizes.bert_defaults(name))
    count = lambda weights: sum(weight.value.shape.num_elements() for weight in weights)
    assert count(network.get_layer("encoder").weights) == encoder
    assert heads is None or count(network.weights) == encoder + heads


@pytest.mark.parametrize("name", NETWORKS)
def test_each_variable_is_trained_and_dropout_is_in_training_only(name):
    network = built(name, dropout=0.2, attention_dropout=0.2)
    with tf.GradientTape() as tape:
        outputs = tf.nest.flatten(network(features(name), training=True))
    gradients = tape.gradient(outputs, [each.value for each in network.trainable_variables])
    assert all(gradient is not None for gradient in gradients)
    again, *_ = tf.nest.flatten(network(features(name), training=True))
    assert np.abs(outputs[0] - again).max() > 0
    first, second = (tf.nest.flatten(network(features(name)))[0] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_padding_changes_nothing():
    network = built("bert classifier of the mean")
    padded = {name: tf.pad(value, [[0, 0], [0, 3]]) for name, value in features("bert classifier").items()}
    np.testing.assert_allclose(network(padded), network(features("bert classifier")), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["bert pretrainer, without pairs", "bert chooser"])
def test_a_saved_network_is_the_same(name, tmp_path):
    network = built(name, recompute=True)
    network.save(tmp_path / "bert.keras")
    loaded = keras.saving.load_model(tmp_path / "bert.keras")
    assert [each.path for each in loaded.trainable_weights] == [each.path for each in network.trainable_weights]
    tf.nest.map_structure(np.testing.assert_array_equal, loaded(features(name)), network(features(name)))


def test_an_unknown_pooling_is_refused():
    with pytest.raises(ValueError, match="model.pooling='maen' is unknown. Did you mean 'mean'"):
        bert.chooser(choices=2, pooling="maen", **SIZES)
