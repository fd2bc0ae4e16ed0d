import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfbigbatch.tasks.losses import classification_loss

LABELS = np.array([1, 0, 3, 2], np.int32)
LOGITS = np.random.RandomState(0).randn(4, 5).astype(np.float32)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.5])
def test_the_loss_is_that_of_smoothed_targets(label_smoothing):
    one_hot = tf.one_hot(LABELS, 5)
    expected = tf_keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=label_smoothing)
    loss = classification_loss(label_smoothing)
    np.testing.assert_allclose(loss(LABELS, LOGITS), expected(one_hot, LOGITS), rtol=1e-6)
    weights = np.array([1, 0, 1, 0.5], np.float32)
    np.testing.assert_allclose(loss(LABELS, LOGITS, weights), expected(one_hot, LOGITS, weights), rtol=1e-6)


def test_a_share_is_checked():
    with pytest.raises(ValueError, match="label_smoothing=1.0: expected 0 <= label_smoothing < 1"):
        classification_loss(1.0)
