import json
import sys
import zipfile

import h5py
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.conftest import mirrored
from tfbigbatch.errors import InputError
from tfbigbatch.runs import initial_weights, keras_file, stored_run


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


def layer(class_name, place="keras.layers", registered_name=None, **config):
    return {"module": place, "class_name": class_name, "config": config, "registered_name": registered_name}


def rewritten(path, described):
    """Gives a .keras file another description."""
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w") as file:
        for name, content in {**members, "config.json": json.dumps(described)}.items():
            file.writestr(name, content)


MKDIR = {"module": "os", "class_name": "function", "config": "mkdir", "registered_name": "mkdir"}
EVAL = {"module": "builtins", "class_name": "function", "config": "eval", "registered_name": "function"}


@pytest.mark.parametrize(
    "added, named",
    [
        (layer("Activation", activation=MKDIR), "os.mkdir"),
        (layer("Activation", activation=EVAL), "builtins.eval"),
        (layer("Dense", units=1, bias_regularizer={**MKDIR, "class_name": "Popen", "module": "subprocess"}), "Popen"),
        (
            layer("Lambda", function="getcwd", function_type="function", module="os", arguments={}),
            "keras.layers.Lambda",
        ),
        (
            layer("Lambda", function=EVAL, function_type="function", module="builtins"),
            "keras.layers.Lambda, builtins.eval",
        ),
        (layer("TFOpLambda", "tf_keras.src.layers.core.tf_op_layer", "TFOpLambda", function="math.add"), "TFOpLambda"),
        (layer("SlicingOpLambda", "tf_keras.src.layers.core.tf_op_layer", function="slice"), "SlicingOpLambda"),
        (layer("ClassMethod", "keras.layers", cls_symbol="io.gfile.GFile", method_name="read"), "ClassMethod"),
        (layer("StringLookup", vocabulary="/etc/passwd"), "keras.layers.StringLookup"),
        (layer("TextVectorization", standardize=EVAL), "keras.layers.TextVectorization"),
        (layer("TimeDistributed", layer=layer("Lambda")), "keras.layers.Lambda"),
        (layer("Dense", "antigravity", units=1), "antigravity.Dense"),
        (layer("get_file", "keras.utils", origin="http://127.0.0.1/"), "keras.utils.get_file"),
        (layer("load_model", "keras.models", filepath="x"), "keras.models.load_model"),
        (layer("Adam", "keras.optimizers", "Custom>Adam"), "keras.optimizers.Adam"),
        (layer("Initializer", "keras.regularizers"), "keras.regularizers.Initializer"),
        ({"class_name": "Lambda", "config": {}}, "None.Lambda"),
        ({"class_name": "__lambda__", "config": {"value": ""}}, "__lambda__"),
        ({**layer("x", "subprocess"), "class_name": "__typespec__", "spec_name": "Popen"}, "subprocess.__typespec__"),
        ({**layer("Dense", units=1), "registered_name": 3}, "keras.layers.Dense"),
        ({**layer("Dense", units=1), "class_name": ["Dense"]}, "Dense"),
    ],
)
def test_a_keras_file_may_name_layers_of_the_list_alone(added, named):
    described = layer("Sequential", "keras", layers=[layer("Dense", units=1, activation="relu"), added])
    assert named in ", ".join(keras_file.refused(described)) and "antigravity" not in sys.modules
    described["config"]["layers"].pop()
    assert not list(keras_file.refused(described))


def test_a_lambda_on_constants_is_not_called(tmp_path):
    """Keras calls a layer of constants while it reads a functional model."""
    trap, path = tmp_path / "trap", tmp_path / "model.keras"
    inputs = tf_keras.Input((2,))
    tf_keras.Model(inputs, tf_keras.layers.Dense(3, name="head")(inputs)).save(path)
    with zipfile.ZipFile(path) as file:
        described = json.loads(file.read("config.json"))
    code = f"open({str(trap)!r}, 'w').close()"
    evil = layer("Lambda", function=EVAL, function_type="function", module="builtins", arguments={}, name="e")
    described["config"]["layers"].insert(0, {**evil, "name": "e", "inbound_nodes": [["_CONSTANT_VALUE", -1, code, {}]]})
    rewritten(path, described)
    with pytest.raises(InputError, match="names builtins.eval, keras.layers.Lambda: only Keras' layers of fixed"):
        initial_weights.load_into(network(), str(path))
    assert not trap.exists()


def test_a_keras_file_of_layers_of_all_kinds_is_read(tmp_path):
    layers = tf_keras.layers
    inputs = layers.Input((4, 3))
    x = layers.Bidirectional(layers.SimpleRNN(2, return_sequences=True))(inputs)
    x = layers.TimeDistributed(layers.Dense(3, "relu", kernel_regularizer="l2", kernel_constraint="max_norm"))(x)
    x = layers.MultiHeadAttention(2, 2)(x, layers.LayerNormalization()(x))
    x = layers.RNN(layers.StackedRNNCells([layers.SimpleRNNCell(2), layers.SimpleRNNCell(3)]))(x)
    inner = tf_keras.Sequential([layers.Input((3,)), layers.Dense(2, dtype="mixed_float16", activation="gelu")])
    inner.compile("sgd", "mse")
    model = tf_keras.Model(inputs, layers.Add()([inner(x), inner(x)]))
    model.compile("adam", "mse", metrics=["mae"])
    model.save(tmp_path / "model.keras")
    found = keras_file.read(str(tmp_path / "model.keras"))
    for one, two in zip(model.get_weights(), found.get_weights(), strict=True):
        np.testing.assert_array_equal(one, two)


@tf_keras.saving.register_keras_serializable(package="others")
class OfAnotherPackage(tf_keras.layers.Layer):
    pass


def test_registered_layers_are_those_of_this_package_and_of_the_users_files(tmp_path, monkeypatch):
    model = tf_keras.Sequential([tf_keras.layers.Dense(3, name="head", input_shape=(2,)), OfAnotherPackage()])
    model.save(tmp_path / "model.keras")
    with pytest.raises(InputError, match="names .*OfAnotherPackage"):
        initial_weights.load_into(network(), str(tmp_path / "model.keras"))
    monkeypatch.setattr(OfAnotherPackage, "__module__", "tfbigbatch_experiment_1")
    assert len(keras_file.read(str(tmp_path / "model.keras")).weights) == 2


def test_what_is_no_keras_file_is_refused(tmp_path):
    trap, path = tmp_path / "trap", tmp_path / "model.keras"
    network().save(path)
    rewritten(path, {"a": 1})
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
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("config.json", "{}")
        file.writestr("model.weights.h5", bytes(2**20))
    with pytest.raises(InputError, match="its parts unpack to far more than the file"):
        initial_weights.load_into(network(), str(path))


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
