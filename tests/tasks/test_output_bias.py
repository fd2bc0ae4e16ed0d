"""model.output_bias: where each task that predicts tokens begins."""

import types

import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch import tasks
from tfbigbatch.config import make_quick, new_config
from tfbigbatch.data import tokenizer
from tfbigbatch.tasks.losses import smoothed_nats
from tfbigbatch.tasks.output_bias import ConstantLoss, OutputBias

COUNTS = np.array([6, 0, 2])


def task_of(name, **fields):
    config = new_config(name, model="bert_tiny" if name == "bert_pretraining" else None)
    make_quick(config)
    model = {**config.model.to_dict(), **fields}
    return tasks.get(name)(model=model, data=config.data.to_dict(), data_dir=None, use_fake_data=True)


def epoch(task):
    """The batches of an epoch, as NumPy arrays."""
    steps = task.train.examples_in_epoch(32) // 32
    context = tf.distribute.InputContext()
    return list(
        task.train.training_batches(context, batch_size=32, seed=0, first_step=0, last_step=steps).as_numpy_iterator()
    )


# For each task: the bias, and all targets of the training set.


def of_words(task):
    return task.network().get_layer("logits").bias.numpy(), task.train.tokens


def of_translation(task):
    return task.network().classifier.bias.numpy(), np.concatenate(
        [labels[weights > 0] for _, labels, weights in epoch(task)]
    )


def of_masked_words(task):
    everything = []
    for features, labels, weights in epoch(task):
        # Without the masks; the vocabulary begins with the special tokens.
        rows, slots = np.nonzero(weights["masked_lm"])
        ids = features["input_word_ids"].copy()
        ids[rows, features["masked_lm_positions"][rows, slots]] = labels["masked_lm"][rows, slots]
        everything.append(ids[ids >= len(tokenizer.SPECIAL)])
    return task.network().get_layer("masked_lm_head").bias.numpy(), np.concatenate(everything)


FOUND = {"lstm_language_model": of_words, "gnmt": of_translation, "bert_pretraining": of_masked_words}


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[pytest.mark.slow] * (each != "lstm_language_model")) for each in FOUND]
)
def test_training_begins_at_the_frequencies_of_the_tokens(name):
    if name == "gnmt":
        pytest.importorskip("sentencepiece")
    task = task_of(name)
    bias, everything = FOUND[name](task)
    counts = np.bincount(everything, minlength=len(bias))
    np.testing.assert_allclose(bias, np.log((counts + 1) / (counts + 1).sum()), rtol=1e-5)
    [line] = task.banner_lines()
    assert line.startswith(f"output     initial bias: log frequency of {len(everything):,} tokens")


def test_each_choice_gives_its_values_and_what_the_network_has_is_left_alone():
    def initialized(choice, built):
        bias = tf.Variable([7.0, 8.0, 9.0])
        OutputBias(choice, types.SimpleNamespace(token_counts=COUNTS), built=built, scale=0.1).initialize(bias)
        return bias.numpy()

    for built in ("zero", "uniform"):
        np.testing.assert_allclose(initialized("frequency", built), np.log((COUNTS + 1) / 11), rtol=1e-6)
    np.testing.assert_array_equal(initialized("zero", "uniform"), 0)
    drawn = initialized("uniform", "zero")
    assert len(set(drawn)) == 3 and (np.abs(drawn) <= 0.1).all()
    for choice in ("zero", "uniform"):
        np.testing.assert_array_equal(initialized(choice, choice), [7, 8, 9])


def test_another_choice_is_refused_before_the_network_is_built():
    with pytest.raises(ValueError, match="model.output_bias='uniforn' is unknown. Did you mean 'uniform'"):
        task_of("lstm_language_model", output_bias="uniforn")


def mean_loss(distribution, label_smoothing):
    """Of labels that occur as COUNTS says, for one prediction for all of them; the trainer's own loss."""
    labels = tf.constant(np.repeat(np.arange(len(COUNTS)), COUNTS), tf.int32)
    logits = tf.constant(np.tile(np.log(distribution), (len(labels), 1)), tf.float32)
    return float(tf.reduce_mean(smoothed_nats(labels, logits, label_smoothing)))


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_no_constant_prediction_has_a_lower_loss(label_smoothing):
    entropy = ConstantLoss("loss", COUNTS, label_smoothing).entropy
    best = (1 - label_smoothing) * COUNTS / COUNTS.sum() + label_smoothing / len(COUNTS)
    assert mean_loss(best + 1e-12, label_smoothing) == pytest.approx(entropy, rel=1e-5)
    random = np.random.RandomState(0)
    for _ in range(20):
        other = (best + 1e-6) * np.exp(0.1 * random.normal(size=len(COUNTS)))
        assert mean_loss(other / other.sum(), label_smoothing) > entropy - 1e-5


@pytest.mark.parametrize(
    "name, scalar", [("lstm_language_model", "loss"), ("bert_pretraining", "masked_lm_loss"), ("gnmt", "loss")]
)
def test_the_tasks_of_tokens_know_their_constant_loss(name, scalar):
    found = task_of(name).constant_loss()
    assert found.scalar == scalar and 0.0 < found.entropy <= np.log(len(found.counts)) + 1e-9
    # GNMT's loss is a sum over the tokens of a sentence, the others' a mean over tokens.
    assert (found.tokens > 1.0, found.label_smoothing) == ((True, 0.1) if name == "gnmt" else (False, 0.0))
