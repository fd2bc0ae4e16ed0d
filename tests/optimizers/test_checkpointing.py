"""The state in a tf.train.Checkpoint: by name, and refused where it is of another model."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import keras_versions
from tests.helpers.keras_versions import (
    KERAS,
    KERAS_VERSIONS,
    small_data,
    small_model,
    state_by_name,
)
from tfbigbatch.optimizers import keras3
from tfbigbatch.optimizers.rule import AccumulationSchedule

# Without the second that tracing takes: states are the same.
fitted = functools.partial(keras_versions.fitted, run_eagerly=True)


def lamb(**options):
    return lambda: keras3.LAMB(learning_rate=0.02, weight_decay=0.01, **options)


def continued(model, steps=3, batch_size=8):
    x, y = small_data(steps * batch_size)
    model.fit(x, y, batch_size=batch_size, shuffle=False, verbose=0)
    return model.get_weights()


def saved(model, tmp_path):
    return tf.train.Checkpoint(model=model, optimizer=model.optimizer).write(str(tmp_path / "checkpoint"))


# By the steps of 5 + 3 micro-batches: the checkpoint lies between two of a step, and Shampoo's also between two
# computations of the roots.
RESTORED = [
    ("LAMB", {"accumulation_steps": 2}, 4),
    ("Shampoo", {"accumulation_steps": 2, "root": {"every": 2}, "graft": {"steps": 3}, "block_size": 2}, 4),
    ("LAMB", {"accumulation_steps": AccumulationSchedule([1, 2], [2, 9])}, 5),
]


@pytest.mark.parametrize("name, options, steps", RESTORED)
@pytest.mark.parametrize("built_before", [True, False])
def test_a_restored_optimizer_goes_on_as_if_never_stopped(name, options, steps, built_before, tmp_path):
    def optimizer():
        return getattr(keras3, name)(learning_rate=0.02, use_ema=True, **options)

    model = fitted("keras3", optimizer, steps=5)
    path = saved(model, tmp_path)
    if built_before:
        other = fitted("keras3", optimizer, steps=2)
    else:
        other = small_model("keras3")
        other.compile(optimizer=optimizer(), loss="mse", run_eagerly=True)
    tf.train.Checkpoint(model=other, optimizer=other.optimizer).restore(path)
    np.testing.assert_equal(continued(model), continued(other))
    assert int(other.optimizer.iterations) == steps
    averages = [each.optimizer._model_variables_moving_average for each in (model, other)]
    np.testing.assert_equal(*([average.numpy() for average in each] for each in averages))


# The model and the optimizer that a checkpoint of a small model's LAMB is restored into, and the error.
OTHERS = [
    ({"head": "top"}, "LAMB", r"m/.*top/kernel: none there, \[4, 1\] here"),
    ({"units": 5}, "LAMB", r"m/.*hidden/kernel: \[4, 4\] there, \[4, 5\] here"),
    ({}, "LARS", r"momentum/.*kernel: none there, \[4, 4\] here"),
]


@pytest.mark.parametrize("model, name, said", OTHERS)
@pytest.mark.parametrize("built_before", [True, False])
def test_another_state_is_an_error_and_not_a_fresh_start(model, name, said, built_before, tmp_path):
    path = saved(fitted("keras3", lamb(), steps=1), tmp_path)
    other, optimizer = small_model("keras3", **model), getattr(keras3, name)()
    if built_before:
        optimizer.build(other.trainable_variables)
    with pytest.raises(ValueError, match=said):
        tf.train.Checkpoint(optimizer=optimizer).restore(path)
        optimizer.build(other.trainable_variables)


@pytest.mark.parametrize("other", KERAS_VERSIONS)
def test_the_checkpoint_of_keras_own_optimizer_is_an_error(other, tmp_path):
    path = saved(fitted(other, lambda: KERAS[other].optimizers.Adam(0.01), steps=1), tmp_path)
    model = small_model("keras3")
    model.compile(optimizer=lamb()(), loss="mse", run_eagerly=True)
    tf.train.Checkpoint(optimizer=model.optimizer).restore(path).expect_partial()
    with pytest.raises(ValueError, match="holds the state of another optimizer"):
        continued(model)


def test_the_order_of_the_variables_does_not_matter(tmp_path):
    model = fitted("keras3", lamb(), steps=3)
    path = saved(model, tmp_path)
    optimizer = lamb()()
    optimizer.build(model.trainable_variables[::-1])
    tf.train.Checkpoint(optimizer=optimizer).restore(path)
    expected = state_by_name(model.optimizer)
    assert len(expected) >= 8
    np.testing.assert_equal(state_by_name(optimizer), expected)
