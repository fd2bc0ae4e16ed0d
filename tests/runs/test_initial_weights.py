import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.conftest import mirrored
from tfbigbatch.errors import InputError
from tfbigbatch.runs import initial_weights, stored_run


def network(classes=3, hidden="hidden", units=4):
    return tf_keras.Sequential(
        [
            tf_keras.layers.Dense(units, name=hidden, input_shape=(2,)),
            tf_keras.layers.BatchNormalization(name="norm"),
            tf_keras.layers.Dense(classes, name="head"),
        ]
    )


def saved(folder, model, step=7):
    optimizer = tf_keras.optimizers.SGD(0.1, momentum=0.9)
    optimizer.build(model.trainable_variables)
    return tf.train.Checkpoint(network=model, optimizer=optimizer).write(str(folder / f"step-{step}"))


def test_what_does_not_fit_stays_random_and_is_told(tmp_path):
    before, after = network(classes=5, hidden="other"), network()
    before.get_layer("norm").gamma.assign([2.0] * 4)
    random = [after.get_layer(name).kernel.numpy() for name in ("head", "hidden")]
    found = initial_weights.load_into(after, saved(tmp_path, before))
    assert found.other_shape == ["head/kernel [4, 3], there [4, 5]", "head/bias [3], there [5]"]
    # Names that differ are not guessed.
    assert found.missing == ["hidden/kernel", "hidden/bias"] and found.unused == ["other/bias", "other/kernel"]
    assert "           not there: hidden/kernel, hidden/bias" in found.lines()
    for name, kernel in zip(("head", "hidden"), random):
        np.testing.assert_array_equal(after.get_layer(name).kernel, kernel)
    np.testing.assert_equal(before.get_layer("norm").get_weights(), after.get_layer("norm").get_weights())


def test_where_nothing_matches_it_is_refused_and_nothing_changes(tmp_path):
    other = tf_keras.Sequential([tf_keras.layers.Dense(9, name="head", input_shape=(5,))])
    after = network()
    before = after.get_weights()
    with pytest.raises(InputError, match=r"(?s)no variable of .*step-7 has the name and shape.*head/kernel \[4, 3\]"):
        initial_weights.load_into(after, saved(tmp_path, other))
    np.testing.assert_equal(before, after.get_weights())


class Twins(tf_keras.Model):
    """Two layers whose variables have the same names."""

    def __init__(self):
        super().__init__()
        self.one, self.two = (tf_keras.layers.Dense(2, name="twin") for _ in range(2))
        self.build((None, 2))

    def call(self, inputs):
        return self.two(self.one(inputs))


def test_variables_of_one_name_are_told_apart(tmp_path):
    before, after = Twins(), Twins()
    found = initial_weights.load_into(after, saved(tmp_path, before))
    assert len(found.matched) == 4
    np.testing.assert_equal(before.get_weights(), after.get_weights())


def test_every_replica_gets_them(tmp_path):
    before = network()
    with mirrored(2).scope():
        after = network()
    initial_weights.load_into(after, saved(tmp_path, before))
    for one, two in zip(before.variables, after.variables):
        for value in two.values:
            np.testing.assert_array_equal(one, value)


def test_what_a_path_may_name(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "best").mkdir()
    for step in (3, 7):
        newest = saved(tmp_path / "checkpoints", network(), step)
    best = saved(tmp_path / "best", network(), 5)
    assert stored_run.checkpoint_at(str(tmp_path)) == newest
    assert stored_run.checkpoint_at(str(tmp_path / "best")) == best
    assert stored_run.checkpoint_at(f"{newest}.index") == newest
    of_keras = tf.train.Checkpoint(network=network(classes=5)).write(str(tmp_path / "start" / "step-0"))
    assert len(initial_weights.load_into(network(), stored_run.checkpoint_at(of_keras)).matched) == 6
    with pytest.raises(InputError, match="--init_from=.*nothing: no checkpoint is there. Expected a run directory"):
        stored_run.checkpoint_at(str(tmp_path / "nothing"))
    (tmp_path / "checkpoints" / "step-7.data-00000-of-00001").write_bytes(b"")
    with pytest.raises(InputError, match="step-7 cannot be read"):
        initial_weights.load_into(network(), newest)
