"""A Keras 3 model in the trainer's Keras 2: the same steps as Keras 3's own fit, and all of its state."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfbigbatch.models.keras3_network import Keras3Network
from tfbigbatch.training.train_step import TrainingModel

BATCH, STEPS = 8, 5


def model():
    images = keras.Input((6, 6, 2))
    x = keras.layers.Conv2D(3, 3, kernel_regularizer=keras.regularizers.L2(0.1))(images)
    x = keras.layers.ReLU()(keras.layers.BatchNormalization()(x))
    x = keras.layers.Dropout(0.5)(keras.layers.Flatten()(x))
    return keras.Model(images, keras.layers.Dense(3, activity_regularizer=keras.regularizers.L2(0.01))(x))


def copied(original):
    other = model()
    for variable, value in zip(other.variables, original.variables):
        variable.assign(value)
    return other


def batches(steps=STEPS):
    draw = np.random.default_rng(0)
    features = draw.normal(size=[steps * BATCH, 6, 6, 2]).astype("float32")
    return tf.data.Dataset.from_tensor_slices((features, draw.integers(0, 3, steps * BATCH))).batch(BATCH, True)


def trained(network, dataset):
    training = TrainingModel(network)
    training.compile(
        tf_keras.optimizers.SGD(0.1, momentum=0.9), tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    history = training.fit(dataset, verbose=0)
    return history.history["loss"][-1]


@pytest.fixture(scope="module")
def original():
    keras.utils.set_random_seed(3)
    return model()


def test_it_makes_the_steps_of_keras_3s_own_fit(original):
    theirs, ours = copied(original), Keras3Network(copied(original))
    theirs.compile(
        keras.optimizers.SGD(0.1, momentum=0.9), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    expected = theirs.fit(batches(), verbose=0, shuffle=False).history["loss"][-1]
    assert trained(ours, batches()) == pytest.approx(expected, rel=1e-5)
    moved = []
    for a, b, start in zip(theirs.variables, ours.keras3_model.variables, original.variables):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-4, atol=1e-6, err_msg=a.path)
        moved.append(not np.array_equal(b.numpy(), start.numpy()))
    # Weights, the statistics of batch normalisation, and the state of dropout's seed.
    assert all(moved) and len(moved) == 9
