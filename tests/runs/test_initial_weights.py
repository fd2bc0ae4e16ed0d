import json
import zipfile

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


def test_all_match_by_name(tmp_path):
    before, after = network(), network()
    found = initial_weights.load_into(after, saved(tmp_path, before))
    assert len(found.matched) == 8 and not (found.other_shape or found.missing or found.unused)
    for one, two in zip(before.variables, after.variables):
        np.testing.assert_array_equal(one, two)
    assert found.lines()[0].startswith("init       8 of 8 variables from ")


def test_another_number_of_classes_leaves_the_head_random(tmp_path):
    before, after = network(classes=5), network()
    random = after.get_layer("head").kernel.numpy()
    found = initial_weights.load_into(after, saved(tmp_path, before))
    assert found.other_shape == ["head/kernel [4, 3], there [4, 5]", "head/bias [3], there [5]"]
    np.testing.assert_array_equal(after.get_layer("head").kernel, random)
    np.testing.assert_array_equal(after.get_layer("hidden").kernel, before.get_layer("hidden").kernel)


def test_names_that_differ_are_listed_and_not_guessed(tmp_path):
    before, after = network(hidden="other"), network()
    random = after.get_layer("hidden").kernel.numpy()
    found = initial_weights.load_into(after, saved(tmp_path, before))
    assert found.missing == ["hidden/kernel", "hidden/bias"] and found.unused == ["other/bias", "other/kernel"]
    np.testing.assert_array_equal(after.get_layer("hidden").kernel, random)
    assert "           not there: hidden/kernel, hidden/bias" in found.lines()


def test_where_nothing_matches_it_is_refused_and_nothing_changes(tmp_path):
    other = tf_keras.Sequential([tf_keras.layers.Dense(9, name="head", input_shape=(5,))])
    after = network()
    before = after.get_weights()
    with pytest.raises(InputError, match=r"(?s)no variable of .*step-7 has the name and shape.*head/kernel \[4, 3\]"):
        initial_weights.load_into(after, saved(tmp_path, other))
    for one, two in zip(before, after.get_weights()):
        np.testing.assert_array_equal(one, two)


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
    for one, two in zip(before.variables, after.variables):
        np.testing.assert_array_equal(one, two)


def test_every_replica_gets_them(tmp_path):
    before = network()
    with mirrored(2).scope():
        after = network()
    initial_weights.load_into(after, saved(tmp_path, before))
    for one, two in zip(before.variables, after.variables):
        for value in two.values:
            np.testing.assert_array_equal(one, value)


def test_files_of_keras(tmp_path):
    before = network(classes=5)
    before.save(tmp_path / "model.keras")
    before.save_weights(tmp_path / "model.weights.h5")
    found = initial_weights.load_into(network(), str(tmp_path / "model.keras"))
    assert len(found.matched) == 6 and len(found.other_shape) == 2
    after = network(classes=5)
    initial_weights.load_into(after, str(tmp_path / "model.weights.h5"))
    np.testing.assert_array_equal(after.get_layer("head").kernel, before.get_layer("head").kernel)
    with pytest.raises(InputError, match="does not fit this network.*all of it has to fit"):
        initial_weights.load_into(network(), str(tmp_path / "model.weights.h5"))


def test_a_keras_file_calls_nothing(tmp_path):
    trap, path = tmp_path / "trap", tmp_path / "model.keras"
    network().save(path)
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    described = json.loads(members["config.json"])
    named = {"module": "os", "class_name": "function", "config": "mkdir", "registered_name": "mkdir"}
    described["config"]["layers"][1]["config"]["activation"] = named
    with zipfile.ZipFile(path, "w") as file:
        for name, content in {**members, "config.json": json.dumps(described)}.items():
            file.writestr(name, content)
    with pytest.raises(InputError, match="model.keras names os.mkdir: neither a layer"):
        initial_weights.load_into(network(), str(path))
    # Whole, and no model.
    with zipfile.ZipFile(path, "w") as file:
        for name, content in {**members, "config.json": json.dumps({"a": 1})}.items():
            file.writestr(name, content)
    with pytest.raises(InputError, match="model.keras holds a dict; expected a model"):
        initial_weights.load_into(network(), str(path))
    # Of the older format, which may hold code as bytes.
    code = eval(f"lambda inputs: (open({str(trap)!r}, 'w'), inputs)[1]")
    held = tf_keras.Sequential([tf_keras.layers.Lambda(code, input_shape=(2,)), tf_keras.layers.Dense(3, name="head")])
    held.save(tmp_path / "older.h5")
    trap.unlink()
    (tmp_path / "older.h5").rename(path)
    with pytest.raises(InputError, match="model.keras cannot be read as a .keras file: File is not a zip file"):
        initial_weights.load_into(network(), str(path))
    assert not trap.exists()


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
    with pytest.raises(InputError, match="step-7 cannot be read"):
        initial_weights.load_into(network(), newest)
