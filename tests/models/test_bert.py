import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.models import bert, sizes

SMALL = {"vocabulary_size": 40, "layers": 2, "hidden_units": 8, "heads": 2, "inner_units": 12, "max_positions": 16}


def features(length=10, masked=3):
    random = np.random.RandomState(0)
    return {
        "input_word_ids": tf.constant(random.randint(0, 40, (2, length)), tf.int32),
        "input_mask": tf.ones([2, length], tf.int32),
        "input_type_ids": tf.zeros([2, length], tf.int32),
        "masked_lm_positions": tf.constant(random.randint(0, length, (2, masked)), tf.int32),
    }


@pytest.mark.parametrize(
    "name, encoder, heads",
    # Heads: the masked words' has 622,650 parameters, the other 1,538.
    [("bert_tiny", 4_385_920, None), pytest.param("bert_base", 109_482_240, 622_650 + 1_538, marks=pytest.mark.slow)],
)
def test_the_published_parameters(name, encoder, heads):
    network = bert.pretrainer(vocabulary_size=30522, **sizes.bert_defaults(name))
    assert network.get_layer("encoder").count_params() == encoder
    assert heads is None or network.count_params() == encoder + heads


def test_without_the_next_sentence_nothing_is_left_untrained():
    network = bert.pretrainer(**SMALL, next_sentence=False)
    with tf.GradientTape() as tape:
        outputs = network(features(), training=True)
        loss = tf.reduce_sum(outputs["masked_lm"])
    assert list(outputs) == ["masked_lm"]
    assert all(gradient is not None for gradient in tape.gradient(loss, network.trainable_variables))


def test_a_classifier_and_a_finder_of_spans_have_the_encoders_inputs():
    words = {name: value for name, value in features().items() if name != "masked_lm_positions"}
    assert bert.classifier(classes=3, **SMALL)(words).shape == (2, 3)
    spans = bert.span_finder(**SMALL)(words)
    assert {name: value.shape for name, value in spans.items()} == {
        "start_positions": (2, 10),
        "end_positions": (2, 10),
    }


def test_a_chooser_scores_each_choice_by_its_own():
    words = {name: value for name, value in features().items() if name != "masked_lm_positions"}
    both = {name: tf.stack([value, tf.roll(value, 1, axis=1)], axis=1) for name, value in words.items()}
    chooser, classifier = bert.chooser(choices=2, **SMALL), bert.classifier(classes=1, **SMALL)
    classifier.set_weights(chooser.get_weights())
    found = chooser(both)
    assert found.shape == (2, 2)
    for choice in range(2):
        alone = classifier({name: value[:, choice] for name, value in both.items()})
        np.testing.assert_allclose(found[:, choice], alone[:, 0], rtol=1e-5)


def test_the_mean_is_of_the_tokens_that_are_not_padding():
    words = {name: value for name, value in features().items() if name != "masked_lm_positions"}
    classifier = bert.classifier(classes=3, pooling="mean", **SMALL)
    sequence = classifier.get_layer("encoder")(words)["sequence_output"]
    head = classifier.get_layer("head")
    expected = tf.reduce_mean(sequence, axis=1) @ head.kernel + head.bias
    np.testing.assert_allclose(classifier(words), expected, rtol=1e-5, atol=1e-6)
    padded = {name: tf.pad(value, [[0, 0], [0, 3]]) for name, value in words.items()}
    np.testing.assert_allclose(classifier(padded), expected, rtol=1e-5, atol=1e-6)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(classifier(words, training=True) ** 2)
    assert all(gradient is not None for gradient in tape.gradient(loss, classifier.trainable_variables))
    with pytest.raises(ValueError, match="model.pooling='maen' is unknown. Did you mean 'mean'"):
        bert.chooser(choices=2, pooling="maen", **SMALL)
