"""Labels that do not fit the loss and the outputs are told by an example, before the first step."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.tasks.test_ready_made import made
from tfbigbatch.errors import InputError

FEATURES = np.zeros([90, 2], np.float32)
NUMBERS = np.arange(90) % 3


def network(outputs=3, activation=None):
    return lambda: tf_keras.Sequential([tf_keras.layers.Dense(outputs, activation)])


def loss_of(labels, *, layers=None, **options):
    """Makes the loss, which checks the labels."""
    data = labels if isinstance(labels, dict) else {"train": (FEATURES, labels), "validation": (FEATURES, labels)}
    task = made(data=data, network=layers or network(), **{"loss": None, **options})
    task.network()
    return task.loss()


BINARY = {"loss": "binary_crossentropy", "metrics": ["binary_accuracy"]}


@pytest.mark.parametrize(
    "labels, options, message",
    [
        (NUMBERS + 1, {}, "example 2 has the label 3; expected class numbers from 0 to 2, .* 30 of 90 do not fit"),
        (NUMBERS - 1, {}, "example 0 has the label -1"),
        (NUMBERS, {"layers": network(2)}, "example 2 has the label 2; expected .* 0 to 1, since the network has 2"),
        (NUMBERS + 0.5, {}, "example 0 has the label 0.5"),
        (np.eye(3)[NUMBERS], {}, "expected class numbers .None.. For one-hot labels give np.argmax"),
        (np.array(["a", "b", "c"])[NUMBERS], {}, "labels are texts; expected numbers. .* np.unique"),
        (NUMBERS % 2, {"layers": network(1)}, "an output for each class. .* loss='binary_crossentropy'"),
        (NUMBERS % 2, {"layers": network(1, "sigmoid")}, "ends in sigmoid, .* 'binary_crossentropy'"),
        (np.zeros([90, 5]), {}, r"labels float32 \[None, 5\] and outputs \[None, 3\]: expected class numbers \[None\]"),
        (NUMBERS + 1, {"loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"]}, "the label 3"),
        (NUMBERS + 1, {"loss": keras.losses.SparseCategoricalCrossentropy(), "metrics": ["accuracy"]}, "the label 3"),
        (NUMBERS, {"loss": "categorical_crossentropy", "metrics": ["accuracy"]}, "expected one-hot labels .None, 3."),
        (NUMBERS, {"layers": network(1, "sigmoid"), **BINARY}, "example 2 has the label 2; expected 0 to 1"),
    ],
)
def test_labels_that_do_not_fit_are_told_by_the_first(labels, options, message):
    with pytest.raises(InputError, match=f"mine, train: .*{message}|{message}") as caught:
        loss_of(labels, **options)
    assert len(str(caught.value).splitlines()) == 1


def test_labels_that_fit_are_taken():
    for labels in (NUMBERS, NUMBERS.astype(np.uint8), NUMBERS.astype(np.float32), NUMBERS[:, np.newaxis]):
        loss_of(labels)
    loss_of(NUMBERS % 2, layers=network(1, "sigmoid"), **BINARY)
    of_some = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)
    loss_of(np.where(NUMBERS == 2, -1, NUMBERS), loss=of_some, metrics=["accuracy"])


def test_the_first_examples_of_a_pipeline_and_the_held_out_ones_are_checked():
    def pipeline(labels):
        return tf.data.Dataset.from_tensor_slices((FEATURES, labels))

    with pytest.raises(InputError, match="mine, validation: example 5 has the label 3"):
        loss_of({"train": pipeline(NUMBERS), "validation": pipeline(NUMBERS + (np.arange(90) == 5))})
    unknown = np.where(np.arange(90) == 1, np.nan, 0.0).astype(np.float32)
    with pytest.raises(InputError, match="example 1 has the label nan; expected finite numbers. 1 of 32 do not fit"):
        loss_of({name: pipeline(unknown) for name in ("train", "validation")}, loss="mse", layers=network(1))
