import json
import os
import zipfile

import h5py
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
    assert len(found.matched) == 6 and found.missing == ["head/kernel", "head/bias"]
    after = network(classes=5)
    initial_weights.load_into(after, str(tmp_path / "model.weights.h5"))
    np.testing.assert_array_equal(after.get_layer("head").kernel, before.get_layer("head").kernel)
    with pytest.raises(InputError, match="does not fit this network.*all of it has to fit"):
        initial_weights.load_into(network(), str(tmp_path / "model.weights.h5"))


def rewritten(path, **parts):
    """Gives a .keras file other parts."""
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in {**members, **parts}.items():
            file.writestr(name, content)


def test_the_description_in_a_keras_file_is_not_read(tmp_path):
    """It can name any function, and Keras calls a layer of constants while it makes a functional model of it."""
    trap, path, before = tmp_path / "trap", tmp_path / "model.keras", network()
    before.save(path)
    code = {"module": "builtins", "class_name": "function", "config": "eval", "registered_name": "function"}
    layer = {"module": "keras.layers", "class_name": "Lambda", "config": {"function": code, "name": "e"}, "name": "e"}
    layer["inbound_nodes"] = [["_CONSTANT_VALUE", -1, f"open({str(trap)!r}, 'w').close()", {}]]
    described = {"module": "keras", "class_name": "Functional", "config": {"layers": [layer]}}
    rewritten(path, **{"config.json": json.dumps(described)})
    after = network()
    assert len(initial_weights.load_into(after, str(path)).matched) == 8 and not trap.exists()
    np.testing.assert_array_equal(after.get_layer("head").kernel, before.get_layer("head").kernel)


def test_what_is_no_keras_file_is_refused_and_nothing_changes(tmp_path):
    path, after = tmp_path / "model.keras", network()
    values = after.get_weights()
    path.write_bytes(b"\x89HDF")
    with pytest.raises(InputError, match="cannot be read as a file of Keras: File is not a zip file"):
        initial_weights.load_into(after, str(path))
    network().save(path)
    rewritten(path, **{"model.weights.h5": bytes(2**20)})
    with pytest.raises(InputError, match="its parts unpack to far more than the file"):
        initial_weights.load_into(after, str(path))
    rewritten(path, **{"model.weights.h5": os.urandom(2**10)})
    with pytest.raises(InputError, match="cannot be read as a file of Keras"):
        initial_weights.load_into(after, str(path))
    tf_keras.Sequential([tf_keras.layers.LSTM(2, input_shape=(3, 4))]).save(path)
    with pytest.raises(InputError, match="no variable of .* has the name and shape"):
        initial_weights.load_into(after, str(path))
    for one, two in zip(values, after.get_weights()):
        np.testing.assert_array_equal(one, two)


def test_weights_of_another_file_are_refused(tmp_path):
    """HDF5 can take a value from any other file, a device as well."""
    (tmp_path / "secret").write_bytes(bytes(48))
    model, path = network(), str(tmp_path / "model.weights.h5")
    links = {
        "soft": lambda file: file.__setitem__("a", h5py.SoftLink("/b")),
        "external": lambda file: file.__setitem__("a", h5py.ExternalLink(str(tmp_path / "secret"), "/b")),
        "raw": lambda file: file.create_dataset("a", (12,), "f4", external=[(str(tmp_path / "secret"), 0, 48)]),
    }
    for add in links.values():
        model.save_weights(path)
        with h5py.File(path, "r+") as file:
            add(file)
        with pytest.raises(InputError, match="--init_from: .*takes //?a from another file"):
            initial_weights.load_into(network(), path)


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
