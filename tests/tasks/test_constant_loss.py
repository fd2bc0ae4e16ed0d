import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch import tasks
from tfbigbatch.tasks.constant_loss import smoothed_entropy
from tfbigbatch.tasks.losses import smoothed_nats

COUNTS = np.array([5, 0, 2, 1, 12])


def mean_loss(distribution, label_smoothing):
    """Of labels that occur as COUNTS says, for one prediction for all of them; the trainer's own loss."""
    labels = tf.constant(np.repeat(np.arange(len(COUNTS)), COUNTS), tf.int32)
    logits = tf.constant(np.tile(np.log(distribution), (len(labels), 1)), tf.float32)
    return float(tf.reduce_mean(smoothed_nats(labels, logits, label_smoothing)))


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.5])
def test_no_constant_prediction_has_a_lower_loss(label_smoothing):
    entropy = smoothed_entropy(COUNTS, label_smoothing)
    best = (1 - label_smoothing) * COUNTS / COUNTS.sum() + label_smoothing / len(COUNTS)
    assert mean_loss(best + 1e-12, label_smoothing) == pytest.approx(entropy, rel=1e-5)
    random = np.random.RandomState(0)
    for _ in range(20):
        other = (best + 1e-6) * np.exp(0.1 * random.normal(size=len(COUNTS)))
        assert mean_loss(other / other.sum(), label_smoothing) > entropy - 1e-5


def test_equally_frequent_tokens_have_the_log_of_their_number():
    assert smoothed_entropy(np.full(8, 3)) == pytest.approx(np.log(8))
    assert smoothed_entropy(np.array([7, 0])) == 0.0


@pytest.mark.parametrize(
    "counts, label_smoothing",
    [([], 0.0), ([0, 0], 0.0), ([-1, 2], 0.0), ([np.nan, 1], 0.0), ([[1, 2]], 0.0), ([1, 2], 1.0)],
)
def test_what_is_no_count_is_refused(counts, label_smoothing):
    with pytest.raises(ValueError, match="expected"):
        smoothed_entropy(np.array(counts), label_smoothing)


@pytest.mark.parametrize(
    "task, scalar", [("lstm_language_model", "loss"), ("bert_pretraining", "masked_lm_loss"), ("gnmt", "loss")]
)
def test_the_tasks_of_tokens_know_theirs(task, scalar):
    model = tasks.model_defaults(task, "bert_tiny" if task == "bert_pretraining" else None)
    kind = tasks.get(task)
    found = kind(model=model, data=dict(kind.data_defaults), data_dir=None, use_fake_data=True).constant_loss()
    assert found.scalar == scalar and 0.0 < found.entropy <= np.log(len(found.counts)) + 1e-9
    # GNMT's loss is a sum over the tokens of a sentence, the others' a mean over tokens.
    assert (found.tokens > 1.0, found.label_smoothing) == ((True, 0.1) if task == "gnmt" else (False, 0.0))
