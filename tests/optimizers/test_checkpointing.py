"""The state in a tf.train.Checkpoint: by name, and refused where it is of another model."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import mirrored
from tests.helpers import keras_versions
from tests.helpers.keras_versions import (
    KERAS,
    KERAS_VERSIONS,
    both_versions,
    make,
    small_data,
    small_model,
    state_by_name,
    variables,
)
from tfbigbatch.keras2 import restore_from_saved_model
from tfbigbatch.optimizers.rule import AccumulationSchedule

# Without the second that tracing takes: states are the same.
fitted = functools.partial(keras_versions.fitted, run_eagerly=True)


def lamb(keras_version, **options):
    return lambda: make(keras_version, "LAMB", learning_rate=0.02, weight_decay=0.01, **options)


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


@both_versions
@pytest.mark.parametrize("name, options, steps", RESTORED)
@pytest.mark.parametrize("built_before", [True, False])
def test_a_restored_optimizer_goes_on_as_if_never_stopped(keras_version, name, options, steps, built_before, tmp_path):
    def optimizer():
        return make(keras_version, name, learning_rate=0.02, use_ema=True, **options)

    model = fitted(keras_version, optimizer, steps=5)
    path = saved(model, tmp_path)
    if built_before:
        other = fitted(keras_version, optimizer, steps=2)
    else:
        other = small_model(keras_version)
        other.compile(optimizer=optimizer(), loss="mse", run_eagerly=True)
    tf.train.Checkpoint(model=other, optimizer=other.optimizer).restore(path)
    np.testing.assert_equal(continued(model), continued(other))
    assert int(other.optimizer.iterations) == steps
    averages = [each.optimizer._model_variables_moving_average for each in (model, other)]
    np.testing.assert_equal(*([average.numpy() for average in each] for each in averages))


# The model and the optimizer that a checkpoint of a small model's LAMB is restored into, and the error.
OTHERS = [
    ({"head": "top"}, "LAMB", "not in it: m/.*top/kernel.*only in it: m/.*head/kernel"),
    ({"units": 5}, "LAMB", r"shapes: m/.*hidden/kernel \[4, 4\] is here \[4, 5\]"),
    ({}, "LARS", "not in it: momentum/.*only in it: m/"),
]


@both_versions
@pytest.mark.parametrize("model, name, said", OTHERS)
@pytest.mark.parametrize("built_before", [True, False])
def test_another_state_is_an_error_and_not_a_fresh_start(keras_version, model, name, said, built_before, tmp_path):
    path = saved(fitted(keras_version, lamb(keras_version), steps=1), tmp_path)
    other, optimizer = small_model(keras_version, **model), make(keras_version, name)
    if built_before:
        optimizer.build(other.trainable_variables)
    with pytest.raises(ValueError, match=said):
        tf.train.Checkpoint(optimizer=optimizer).restore(path)
        optimizer.build(other.trainable_variables)


@both_versions
@pytest.mark.parametrize("other", KERAS_VERSIONS)
def test_the_checkpoint_of_keras_own_optimizer_is_an_error(keras_version, other, tmp_path):
    path = saved(fitted(other, lambda: KERAS[other].optimizers.Adam(0.01), steps=1), tmp_path)
    model = small_model(keras_version)
    model.compile(optimizer=lamb(keras_version)(), loss="mse", run_eagerly=True)
    tf.train.Checkpoint(optimizer=model.optimizer).restore(path).expect_partial()
    with pytest.raises(ValueError, match="holds the state of another optimizer"):
        continued(model)


@both_versions
def test_the_order_of_the_variables_does_not_matter(keras_version, tmp_path):
    model = fitted(keras_version, lamb(keras_version), steps=3)
    path = saved(model, tmp_path)
    optimizer = lamb(keras_version)()
    optimizer.build(model.trainable_variables[::-1])
    tf.train.Checkpoint(optimizer=optimizer).restore(path)
    expected = state_by_name(model.optimizer)
    assert len(expected) >= 8
    np.testing.assert_equal(state_by_name(optimizer), expected)


def test_a_saved_model_is_refused_for_another_optimizer(tmp_path):
    model = fitted("tf_keras", lamb("tf_keras"), steps=1)
    model.save(tmp_path / "saved")
    model.compile(optimizer=make("tf_keras", "LARS"), loss="mse")
    with pytest.raises(ValueError, match="was saved with another optimizer than the model has"):
        restore_from_saved_model(model, str(tmp_path / "saved"))
    with pytest.raises(ValueError, match="holds no SavedModel"):
        restore_from_saved_model(model, str(tmp_path / "elsewhere"))


def variants(keras_version):
    """Optimizers with our state, by what is around or in it."""
    made = {
        "LAMB": lamb(keras_version),
        "LARS": lambda: make(keras_version, "LARS"),
        "accumulation and averages": lamb(keras_version, accumulation_steps=2, use_ema=True),
        "Adasum": lambda: make(keras_version, "Adasum", optimizer=lamb(keras_version)()),
    }
    if keras_version == "keras3":
        scaled = lambda inner: make(keras_version, "LossScaleOptimizer", inner_optimizer=inner)
        made["loss scale"] = lambda: scaled(lamb(keras_version)())
        made["loss scale and Adasum"] = lambda: scaled(made["Adasum"]())
    return made


VARIANTS = [(version, name) for version in KERAS_VERSIONS for name in variants(version)]


def saved_state(keras_version, optimizer, layers=("kernel", "bias", "top")):
    """What a file has for an optimizer that was built for some layers and has taken three steps."""
    optimizer.build(variables(keras_version, {name: np.ones(len(name)) for name in layers}))
    optimizer.iterations.assign(3)
    store = {}
    optimizer.save_own_variables(store)
    return store


@pytest.mark.parametrize("keras_version, name", VARIANTS)
def test_a_files_state_loads_where_it_is_the_optimizers_own_and_warns_elsewhere(keras_version, name):
    make_one = variants(keras_version)[name]
    own = saved_state(keras_version, make_one())
    unbuilt = make_one()
    with pytest.warns(UserWarning, match=r"saved state was not loaded.*optimizer.build\(model.trainable_variables\)"):
        unbuilt.load_own_variables(own)
    assert int(unbuilt.iterations) == 0
    used = make_one()
    saved_state(keras_version, used)
    used.iterations.assign(5)
    # With Adam there are as many variables, in another order.
    adam = saved_state(keras_version, KERAS[keras_version].optimizers.Adam(0.01))
    for other in (adam, saved_state(keras_version, make_one(), layers=["kernel"])):
        with pytest.warns(UserWarning, match="of another optimizer, or of other trainable layers"):
            used.load_own_variables(other)
        assert int(used.iterations) == 5
    used.load_own_variables(own)
    assert int(used.iterations) == 3


def compiled(keras_version, built=True):
    """A small model whose optimizer has its state, and has counted some steps."""
    model = small_model(keras_version)
    model.compile(optimizer=lamb(keras_version)(), loss="mse", run_eagerly=True)
    if built:
        model.optimizer.build(model.trainable_variables)
        model.optimizer.iterations.assign(3)
    return model


@both_versions
def test_weights_load_into_a_freshly_compiled_model(keras_version, tmp_path):
    path = str(tmp_path / "model.weights.h5")
    model, fresh = compiled(keras_version), compiled(keras_version, built=False)
    model.set_weights([weight + 1.0 for weight in model.get_weights()])
    model.save_weights(path)
    with pytest.warns(UserWarning, match="saved state was not loaded"):
        fresh.load_weights(path)
    np.testing.assert_equal(model.get_weights(), fresh.get_weights())
    # As the warning says.
    fresh.optimizer.build(fresh.trainable_variables)
    fresh.load_weights(path)
    assert int(fresh.optimizer.iterations) == 3


@both_versions
def test_a_model_saved_before_its_first_step_loads_without_a_warning(keras_version, tmp_path, recwarn):
    compiled(keras_version, built=False).save(tmp_path / "model.keras")
    for strategy in (tf.distribute.get_strategy(), mirrored(2)):
        with strategy.scope():
            KERAS[keras_version].models.load_model(tmp_path / "model.keras")
    assert not [each for each in recwarn if "saved state" in str(each.message)]
