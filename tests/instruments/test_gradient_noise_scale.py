"""The noise scale on a problem whose gradient covariance is known in closed form."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.instrument_models import examples
from tfbigbatch.instruments import GradientNoiseScale, StepGradients

DIMENSION, NOISE = 4, 0.5
OFFSET = np.array([0.2, -0.3, 0.4, 0.5], "float32")
# Of (x (w - offset's end) - noise)^2 with normal x of unit covariance, g = 2 x (x OFFSET - noise):
SQUARED_NORM = 4 * (OFFSET**2).sum()
TRACE = 4 * ((DIMENSION + 1) * (OFFSET**2).sum() + DIMENSION * NOISE**2)


def linear_examples(count, seed):
    random = np.random.RandomState(seed)
    x = random.normal(size=(count, DIMENSION)).astype("float32")
    return x, (NOISE * random.normal(size=(count, 1))).astype("float32")


def still():
    """The model y = x OFFSET, of data whose best weights are 0, that no update changes."""
    model = keras.Sequential([keras.layers.Input((DIMENSION,)), keras.layers.Dense(1, use_bias=False)])
    model.compile(keras.optimizers.SGD(0.0), "mse", jit_compile=False)
    model.set_weights([OFFSET[:, None]])
    return model


def test_fresh_probes_give_the_closed_form_within_its_error():
    looks = 40
    raw = GradientNoiseScale(probe=lambda step: linear_examples(32, seed=step), micro_batches=4, when=1, smoothing=0.0)
    model = still()
    x, y = linear_examples(looks * 2, seed=1000)
    model.fit(x, y, batch_size=2, verbose=0, callbacks=[raw])
    for name, truth in (("squared_norm", SQUARED_NORM), ("trace", TRACE)):
        values = np.array([row[name] for row in raw.history])
        error = values.std() / math.sqrt(looks)
        assert abs(values.mean() - truth) < 3 * error < 0.5 * truth
    # The same looks, averaged.
    average = GradientNoiseScale(probe=examples(8), smoothing=0.95).average
    for row in raw.history:
        average.add(row["squared_norm"], row["trace"])
    estimate = average.estimate()
    assert estimate.low < TRACE / SQUARED_NORM < estimate.high < 3 * TRACE / SQUARED_NORM


def test_a_train_step_of_ones_own_hands_its_gradients_over():
    class Watched(keras.Model):
        """Two micro-batches to an update, as a user of Keras 3 would write it."""

        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1, use_bias=False)
            self.dense.build((None, DIMENSION))
            self.watch = StepGradients(1)

        def call(self, inputs, training=None):
            return self.dense(inputs)

        def train_step(self, data):
            x, y = data
            weights = [variable.value for variable in self.trainable_variables]
            found = []
            for part in range(2):
                with tf.GradientTape() as tape:
                    loss = self.compute_loss(y=y[part::2], y_pred=self(x[part::2]))
                found.append(tape.gradient(loss, weights))
                self.watch.add_micro_batch(found[-1], 2)
            mean = [(one + other) / 2 for one, other in zip(*found)]
            self.watch.add_update(mean)
            self.optimizer.apply_gradients(zip(mean, self.trainable_variables))
            return {"loss": loss}

    model = Watched()
    model.compile(keras.optimizers.SGD(0.0), "mse", jit_compile=False)
    model.set_weights([OFFSET[:, None]])
    noise = GradientNoiseScale(step_gradients=model.watch, when=50)
    x, y = linear_examples(4 * 250, seed=3)
    model.fit(x, y, batch_size=4, verbose=0, callbacks=[noise])
    assert [row["step"] for row in noise.history] == list(range(50, 251, 50))
    last = noise.history[-1]
    assert last["low"] < TRACE / SQUARED_NORM < last["high"]
    assert last["critical_batch_size"] == pytest.approx(TRACE / SQUARED_NORM, rel=0.3)
