"""The state in a tf.train.Checkpoint: by name, and refused where it is of another model."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.keras_versions import KERAS, KERAS_VERSIONS, fitted, make, small_data, small_model, state_by_name
from tfbigbatch.optimizers import restore_from_saved_model
from tfbigbatch.optimizers.checkpointing import canonical

both_versions = pytest.mark.parametrize("keras_version", KERAS_VERSIONS)


def lamb(keras_version, **options):
    return lambda: make(keras_version, "LAMB", learning_rate=0.02, weight_decay=0.01, **options)


def continued(model, steps=3, batch_size=8):
    x, y = small_data(steps * batch_size)
    model.fit(x, y, batch_size=batch_size, shuffle=False, verbose=0)
    return model.get_weights()


def saved(model, tmp_path):
    return tf.train.Checkpoint(model=model, optimizer=model.optimizer).write(str(tmp_path / "checkpoint"))


@both_versions
@pytest.mark.parametrize("built_before", [True, False])
def test_a_restored_optimizer_goes_on_as_if_never_stopped(keras_version, built_before, tmp_path):
    options = {"accumulation_steps": 2, "use_ema": True}
    model = fitted(keras_version, lamb(keras_version, **options), steps=5)
    path = saved(model, tmp_path)
    if built_before:
        other = fitted(keras_version, lamb(keras_version, **options), steps=2)
    else:
        other = small_model(keras_version)
        other.compile(optimizer=lamb(keras_version, **options)(), loss="mse", jit_compile=False)
    tf.train.Checkpoint(model=other, optimizer=other.optimizer).restore(path)
    for ours, theirs in zip(continued(model), continued(other)):
        np.testing.assert_array_equal(ours, theirs)
    # 5 + 3 micro-batches, two to an update; the checkpoint lay between the two of one.
    assert int(other.optimizer.iterations) == 4
    averages = [model.optimizer._model_variables_moving_average, other.optimizer._model_variables_moving_average]
    for ours, theirs in zip(*averages):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@both_versions
@pytest.mark.parametrize("built_before", [True, False])
def test_another_model_is_an_error_and_not_a_fresh_start(keras_version, built_before, tmp_path):
    path = saved(fitted(keras_version, lamb(keras_version), steps=1), tmp_path)
    layers = KERAS[keras_version].layers
    other = KERAS[keras_version].Sequential(
        [layers.Input((4,)), layers.Dense(4, name="hidden"), layers.Dense(1, name="top")]
    )
    other.compile(optimizer=lamb(keras_version)(), loss="mse")
    if built_before:
        other.optimizer.build(other.trainable_variables)
    with pytest.raises(ValueError, match="not in it: m/.*top/kernel.*only in it: m/.*head/kernel"):
        tf.train.Checkpoint(optimizer=other.optimizer).restore(path)
        other.optimizer.build(other.trainable_variables)


@both_versions
def test_other_shapes_and_another_optimizer_are_errors(keras_version, tmp_path):
    path = saved(fitted(keras_version, lamb(keras_version), steps=1), tmp_path)
    for other, optimizer, said in (
        (
            small_model(keras_version, units=5),
            lamb(keras_version)(),
            r"shapes: m/.*hidden/kernel \[4, 4\] is here \[4, 5\]",
        ),
        (small_model(keras_version), make(keras_version, "LARS"), "not in it: momentum/.*only in it: m/"),
    ):
        optimizer.build(other.trainable_variables)
        with pytest.raises(ValueError, match=said):
            tf.train.Checkpoint(optimizer=optimizer).restore(path)


@both_versions
@pytest.mark.parametrize("other", KERAS_VERSIONS)
def test_the_checkpoint_of_keras_own_optimizer_is_an_error(keras_version, other, tmp_path):
    path = saved(fitted(other, lambda: KERAS[other].optimizers.Adam(0.01), steps=1), tmp_path)
    model = small_model(keras_version)
    model.compile(optimizer=lamb(keras_version)(), loss="mse", jit_compile=False)
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
    expected, actual = state_by_name(model.optimizer), state_by_name(optimizer)
    assert expected.keys() == actual.keys() and len(expected) >= 8
    for name, value in expected.items():
        np.testing.assert_array_equal(actual[name], value)


@both_versions
def test_a_model_made_twice_has_the_same_names(keras_version, tmp_path):
    """Keras numbers the layers of a process: the second model's are dense_2 and dense_3."""

    def unnamed():
        layers = KERAS[keras_version].layers
        model = KERAS[keras_version].Sequential([layers.Input((4,)), layers.Dense(4), layers.Dense(1)])
        model.compile(optimizer=lamb(keras_version)(), loss="mse", jit_compile=False)
        continued(model)
        return model

    first, second = unnamed(), unnamed()
    tf.train.Checkpoint(optimizer=second.optimizer).restore(saved(first, tmp_path))
    for ours, theirs in zip(first.optimizer.variables, second.optimizer.variables):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@both_versions
def test_a_saved_file_of_another_model_is_an_error(keras_version):
    store = {
        str(i): variable.numpy()
        for i, variable in enumerate(fitted(keras_version, lamb(keras_version), steps=1).optimizer.variables)
    }
    other = lamb(keras_version)()
    other.build(small_model(keras_version, units=5).trainable_variables)
    with pytest.raises(ValueError, match="The saved state is not that of this LAMB"):
        other.load_own_variables(store)
    # A model saved before its first update has no state: nothing is wrong with that.
    other.load_own_variables({"0": np.int64(0), "1": np.float32(0.1)})


def test_a_saved_model_is_refused_for_another_optimizer(tmp_path):
    model = fitted("tf_keras", lamb("tf_keras"), steps=1)
    model.save(tmp_path / "saved")
    model.compile(optimizer=make("tf_keras", "LARS"), loss="mse")
    with pytest.raises(ValueError, match="was saved with another optimizer than the model has"):
        restore_from_saved_model(model, str(tmp_path / "saved"))
    with pytest.raises(ValueError, match="holds no SavedModel"):
        restore_from_saved_model(model, str(tmp_path / "elsewhere"))


def test_canonical_names():
    assert canonical(["dense_7/kernel", "dense_9/kernel"]) == ["dense/kernel", "dense#1/kernel"]
    assert canonical(["dense_9/kernel", "dense/kernel"]) == ["dense#1/kernel", "dense/kernel"]
    assert canonical(["a/w", "a/w", "Variable"]) == ["a/w", "a/w~1", "Variable"]
    assert canonical(["block_2/conv/kernel", "block_10/conv/kernel"]) == ["block/conv/kernel", "block#1/conv/kernel"]
