"""Advice for a model of one's own; and what is refused."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfbigbatch.errors import InputError
from tfbigbatch.tuning import model as of_model
from tfbigbatch.tuning.model import advise

RANDOM = np.random.RandomState(0)
X = RANDOM.normal(size=(256, 4)).astype("float32")
Y = (X[:, :1] + 0.5 * RANDOM.normal(size=(256, 1))).astype("float32")


def compiled(**options):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    model.compile(**{"optimizer": keras.optimizers.SGD(0.05, momentum=0.9), "loss": "mse", **options})
    return model


@pytest.mark.slow
@pytest.mark.parametrize("as_dataset", [False, True])
def test_a_model_is_measured_and_left_as_it_was(as_dataset):
    model = compiled()
    before = model.get_weights()
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(32) if as_dataset else (X, Y)
    advice = advise(model, data, batch_size=8, epochs=60, seconds=2)
    np.testing.assert_equal(before, model.get_weights())
    assert int(model.optimizer.iterations) == 0
    assert advice.tuned.learning_rate == pytest.approx(0.05) and advice.dataset_size == 256
    assert len(advice.step_seconds) >= 3
    assert advice.command is None and "tfbigbatch train" not in str(advice)
    history = model.fit(X, Y, batch_size=8, verbose=0)
    assert np.isfinite(history.history["loss"][-1])


@pytest.mark.slow
def test_averages_that_the_advised_steps_leave_at_their_beginning_are_named():
    model = compiled(optimizer=keras.optimizers.SGD(0.05, use_ema=True, ema_momentum=0.9999))
    with pytest.warns(UserWarning, match="use_ema: ema_momentum=0.9999 keeps .* Set ema_momentum="):
        advise(model, (X, Y), batch_size=8, epochs=60, seconds=2)


@pytest.mark.slow
def test_a_run_that_diverges_is_not_measurable():
    model = compiled()
    with pytest.raises(InputError, match="not measurable: the recipe diverges"):
        advise(model, (X * 1e18, Y), batch_size=8, seconds=2)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"batch_size": 8.5}, "advise: batch_size=8.5 is not a whole number"),
        ({"batch_size": 1}, "batch_size=1 is out of range"),
        ({"batch_size": 128}, "not measurable: 256 examples are too few for a tuned batch of 128"),
        ({"dataset": X}, "dataset is a ndarray without examples and labels; expected"),
        ({"dataset": (X, None)}, "without examples and labels"),
        ({"dataset": (X, Y[:100])}, "arrays of one length"),
        ({"model": "resnet"}, "model is a str; expected a compiled keras.Model of Keras 3"),
        ({"model": tf_keras.Sequential()}, "model is a Sequential; expected a compiled keras.Model of Keras 3"),
        ({"model": keras.Sequential()}, "expected a compiled keras.Model"),
        (
            {
                "model": compiled(
                    optimizer=keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9))
                )
            },
            "has a learning-rate schedule; give learning_rate",
        ),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    given = {"model": compiled(), "dataset": (X, Y), "batch_size": 8, **arguments}
    with pytest.raises(InputError, match=message):
        advise(given.pop("model"), given.pop("dataset"), **given)


def test_a_dataset_tells_its_size():
    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).batch(32)
    assert of_model.read(dataset)[1:] == of_model.read((X, Y))[1:] == (256, 256)
    with pytest.raises(InputError, match="assert_cardinality"):
        of_model.read(dataset.repeat())
    with pytest.raises(InputError, match="without examples and labels"):
        of_model.read(dataset.take(0))
    with pytest.raises(InputError, match="without examples and labels"):
        of_model.read(dataset.map(lambda x, y: x))
