"""--init_from: weights of another run, by the paths of variables."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import mirrored
from tfbigbatch.errors import InputError
from tfbigbatch.run_directory import initial_weights, stored_run, weights


def network(classes=3, hidden="hidden", units=4):
    layers = [
        keras.Input((2,)),
        keras.layers.Dense(units, name=hidden),
        keras.layers.BatchNormalization(name="norm"),
        keras.layers.Dropout(0.5),
        keras.layers.Dense(classes, name="head"),
    ]
    return keras.Sequential(layers)


def saved(folder, model, step=7, averages=None):
    """A checkpoint as a run writes it."""
    variables = weights.by_path(model)
    parts = {weights.WEIGHTS: {path: each.value for path, each in variables.items()}}
    if averages is not None:
        trained = {path: each.shape for path, each in variables.items() if each.trainable}
        parts["averages"] = {path: tf.Variable(tf.fill(shape, averages)) for path, shape in trained.items()}
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    optimizer.build(model.trainable_variables)
    return tf.train.Checkpoint(optimizer=optimizer, **parts).write(str(folder / f"step-{step}"))


def test_what_does_not_fit_stays_random_and_is_told(tmp_path):
    before, after = network(classes=5, hidden="other"), network()
    before.get_layer("norm").gamma.assign([2.0] * 4)
    random = [after.get_layer(name).kernel.numpy() for name in ("head", "hidden")]
    path = saved(tmp_path, before)
    # Names that differ are not guessed.
    assert initial_weights.load_into(after, path) == [
        f"init       4 of 8 variables from {path}; the optimizer starts fresh",
        "           other shape: head/kernel [4, 3], there [4, 5], head/bias [3], there [5]",
        "           not there: hidden/kernel, hidden/bias",
        "           not used: other/bias, other/kernel",
    ]
    for name, kernel in zip(("head", "hidden"), random):
        np.testing.assert_array_equal(after.get_layer(name).kernel, kernel)
    np.testing.assert_equal(before.get_layer("norm").get_weights(), after.get_layer("norm").get_weights())


def test_where_nothing_matches_it_is_refused_and_nothing_changes(tmp_path):
    other = keras.Sequential([keras.Input((5,)), keras.layers.Dense(9, name="head")])
    after = network()
    before = after.get_weights()
    with pytest.raises(InputError, match=r"(?s)no variable of .*step-7 has the path and shape.*head/kernel \[4, 3\]"):
        initial_weights.load_into(after, saved(tmp_path, other))
    np.testing.assert_equal(before, after.get_weights())


class Twins(keras.Model):
    """Two layers whose variables have the same paths, and one whose name has a point."""

    def __init__(self):
        super().__init__()
        self.one, self.two = (keras.layers.Dense(2, name="twin") for _ in range(2))
        self.three = keras.layers.Dense(2, name="third.S")

    def call(self, inputs):
        return self.three(self.two(self.one(inputs)))


def test_variables_of_one_path_are_told_apart(tmp_path):
    before, after = Twins(), Twins()
    for each in (before, after):
        each(np.zeros([1, 2], "float32"))
    # None has the model's own name, which differs between the two.
    assert initial_weights.load_into(after, saved(tmp_path, before))[0].startswith("init       6 of 6 variables")
    assert list(weights.by_path(after)) == [
        *("twin/kernel", "twin/bias", "twin/kernel~2", "twin/bias~2", "third.S/kernel", "third.S/bias")
    ]
    np.testing.assert_equal(before.get_weights(), after.get_weights())


def test_every_replica_gets_them(tmp_path):
    before = network()
    with mirrored(2).scope():
        after = network()
    initial_weights.load_into(after, saved(tmp_path, before))
    for one, two in zip(before.weights, after.weights):
        for value in two.value.values:
            np.testing.assert_array_equal(one, value)


def test_of_a_run_with_averages_they_are_the_averages(tmp_path):
    before, after = network(), network()
    before.get_layer("norm").moving_mean.assign([3.0] * 4)
    initial_weights.load_into(after, saved(tmp_path, before, averages=0.25))
    for variable in after.trainable_variables:
        np.testing.assert_array_equal(variable, np.full(variable.shape, 0.25))
    np.testing.assert_array_equal(after.get_layer("norm").moving_mean, [3.0] * 4)


def test_what_a_path_may_name(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "best").mkdir()
    for step in (3, 7):
        newest = saved(tmp_path / "checkpoints", network(), step)
    best = saved(tmp_path / "best", network(), 5)
    assert stored_run.checkpoint_at(str(tmp_path)) == newest
    assert stored_run.checkpoint_at(str(tmp_path / "best")) == best
    assert stored_run.checkpoint_at(f"{newest}.index") == newest
    with pytest.raises(InputError, match="--init_from=.*nothing: no checkpoint is there. Expected a run directory"):
        stored_run.checkpoint_at(str(tmp_path / "nothing"))
    (tmp_path / "checkpoints" / "step-7.data-00000-of-00001").write_bytes(b"")
    with pytest.raises(InputError, match="--init_from: checkpoint .*step-7 is damaged"):
        initial_weights.load_into(network(), newest)


def test_a_checkpoint_of_another_program_is_told_how_to_become_one(tmp_path):
    other = tf.train.Checkpoint(network=tf.Module(), count=tf.Variable(1)).write(str(tmp_path / "start"))
    with pytest.raises(InputError, match=r"has no weights by path: .*run_directory.weights.by_path\(model\)"):
        initial_weights.load_into(network(), other)
