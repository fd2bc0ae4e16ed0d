"""Networks rebuilt of Keras' own layers, and their files read where this package is not: equal outputs."""

import os
import subprocess
import sys

import keras
import numpy as np
import pytest
from keras import layers, ops

from tfbigbatch.export.keras_layers import in_keras_layers
from tfbigbatch.models import alexnet, bert, gnmt, image_models, lstm_language_model, small_classifiers

READ = """
import sys
sys.modules["tfbigbatch"] = None
import keras, numpy as np
for path in sys.argv[1:]:
    model = keras.saving.load_model(path)
    with np.load(path.replace(".keras", ".npz")) as kept:
        inputs = {name[3:]: kept[name] for name in kept if name.startswith("in:")}
        expected = [kept[name] for name in sorted(kept) if name.startswith("out:")]
    outputs = keras.tree.flatten(model(keras.tree.pack_sequence_as(model.input, list(inputs.values()))))
    for found, wanted in zip(outputs, expected, strict=True):
        found = keras.ops.convert_to_numpy(found)
        assert abs(wanted).max() > 0
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 * abs(wanted).max(), err_msg=path)
    assert not any(type(layer).__module__.startswith("tfbigbatch") for layer in model.layers)
"""


def ours(cls):
    """The class as one of the package's."""
    cls.__module__ = "tfbigbatch.models.of_a_test"
    return cls


@ours
class Scaled(layers.BatchNormalization):
    """Extends a layer of Keras, with its weights."""

    def get_config(self):
        return {}


@ours
class Band(layers.Layer):
    """Has weights of its own."""

    def build(self, shape):
        self.matrix = self.add_weight(shape=(shape[-1], 3), name="matrix")

    def call(self, inputs):
        return ops.matmul(inputs, self.matrix)

    def in_keras(self, twin, inputs):
        return twin(layers.Dense(3, use_bias=False, name="band"), weights=[self.matrix])(inputs)


@ours
class Stack(layers.Layer):
    """Has layers of Keras and of the package, one of them called twice."""

    def __init__(self, **options):
        super().__init__(**options)
        self.band, self.dense, self.norm = Band(name="band"), layers.Dense(3, name="dense"), Scaled(name="norm")

    def build(self, shape):
        for layer, width in ((self.band, shape[-1]), (self.dense, 3), (self.norm, 3)):
            layer.build((None, width))

    def call(self, inputs, training=None):
        return self.dense(self.dense(self.norm(self.band(inputs), training=training)))

    def in_keras(self, twin, inputs, training=None):
        dense = twin(self.dense)
        return dense(dense(twin(self.norm)(twin(self.band)(inputs))))


@ours
class Unknown(layers.Layer):
    def call(self, inputs):
        return inputs


def own_layers():
    """A network with two of a kind, a nested and a shared model, and inputs of two names."""
    one, two = keras.Input((4,), name="one"), keras.Input((4,), name="two")
    tower = keras.Sequential([keras.Input((4,)), layers.Dense(4, "gelu"), Stack()], name="tower")
    both = tower(one) + tower(Stack(name="dense")(two)[:, :1] * two)
    outputs = {
        "first": Stack(name="stack")(both),
        "second": Scaled(name="scaled")(layers.Dense(3, name="dense_1")(both)),
    }
    return keras.Model({"one": one, "two": two}, outputs, name="own")


def changed(network, noise=0.1):
    """The network with other weights: gammas, betas and means of 0 would hide an error, and so would variances of 1."""
    random = np.random.default_rng(0)

    def other(weight):
        if weight.ndim > 1:
            return weight + random.normal(0.0, noise, weight.shape)
        return np.abs(weight + random.normal(0.05, 0.1, weight.shape))

    network.set_weights([other(weight) for weight in network.get_weights()])
    return network


def inputs_of(network, examples=3):
    random = np.random.default_rng(1)

    def values(tensor):
        shape = [examples, *(5 if size is None else size for size in tensor.shape[1:])]
        if "int" in tensor.dtype:
            return random.integers(0, 256 if tensor.dtype == "uint8" else 2, shape).astype(tensor.dtype)
        return random.normal(size=shape).astype("float32")

    return keras.tree.map_structure(values, network.input)


def write(network, folder, inputs=None):
    """The network in Keras' layers in a file, its inputs and its outputs in another."""
    inputs = inputs_of(network) if inputs is None else inputs
    path = str(folder / f"{network.name}.keras")
    in_keras_layers(network).save(path)
    given, found = keras.tree.flatten(inputs), keras.tree.flatten(network(inputs))
    kept = {f"in:{number:02}": each for number, each in enumerate(given)}
    kept |= {f"out:{number:02}": ops.convert_to_numpy(each) for number, each in enumerate(found)}
    np.savez(path.replace(".keras", ".npz"), **kept)
    return path


def read(paths, backend, folder):
    """Checks in a process without the package that files give the same outputs."""
    environment = {**os.environ, "KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [sys.executable, "-c", READ, *paths], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_layers_of_every_kind(backend, tmp_path):
    pytest.importorskip(backend)
    read([write(changed(own_layers()), tmp_path)], backend, tmp_path)


def test_names_say_where_a_layer_was():
    names = [layer.name for layer in in_keras_layers(changed(own_layers())).layers]
    assert {"tower", "stack_band_band", "stack_dense", "stack_norm", "scaled", "dense_1", "dense_band_band"} <= set(
        names
    )


def test_a_model_without_layers_of_the_package_is_written_as_it_is():
    network = keras.Sequential([keras.Input((4,)), layers.Dense(2)])
    assert in_keras_layers(network) is network


def test_what_keras_cannot_express_is_named():
    pixels = keras.Input((4,))
    with pytest.raises(ValueError, match=r"layer 'mine' \(Unknown\) has no counterpart among Keras' own layers"):
        in_keras_layers(keras.Model(pixels, Unknown(name="mine")(pixels)))
    subclassed = ours(type("Own", (keras.Model,), {"call": lambda self, inputs: inputs}))(name="whole")
    with pytest.raises(ValueError, match=r"model 'whole' \(Own\) is not a functional model"):
        in_keras_layers(subclassed)
    wrong = ours(type("Wrong", (Band,), {"in_keras": lambda self, twin, inputs: inputs[:, :3]}))
    with pytest.raises(ValueError, match="output 0 differs by .* when it is rebuilt"):
        in_keras_layers(keras.Model(pixels, wrong()(pixels)))


ALEXNET = {"image_size": 29, "classes": 3, "width": 12, "fc_units": 8, "stem": "5x5_stride2"}
SIZES = {
    **{"vocabulary_size": 20, "layers": 2, "hidden_units": 8, "heads": 2},
    **{"inner_units": 16, "max_positions": 12},
}
IDS = np.random.default_rng(0).integers(1, 20, (2, 6)).astype(np.int32)
MASK = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], np.int32)
TEXTS = {"input_word_ids": IDS, "input_mask": MASK, "input_type_ids": (IDS > 9).astype(np.int32)}
NETWORKS = {
    "lenet": (lambda: small_classifiers.lenet(shape=(12, 12), classes=4, brightest=255, filters=3, fc_units=10), None),
    "row_classifier": (
        lambda: small_classifiers.row_classifier(
            shape=(8, 8), classes=4, brightest=16, hidden_units=3, projection_units=2, dropout=0.1
        ),
        None,
    ),
    "alexnet": (lambda: alexnet.alexnet(**ALEXNET), None),
    "lstm_language_model": (
        lambda: lstm_language_model.lstm_language_model(
            vocabulary_size=9, window=4, hidden_units=3, embedding_units=2, layers=2, dropout=0.1
        ),
        None,
    ),
    "alexnet_bn": (lambda: alexnet.alexnet(**ALEXNET, norm="batch", cross_replica_norm=True, groups=1), None),
    "resnet": (lambda: image_models.build("resnet", image_size=16, classes=3, blocks=(1, 1), width=4), None),
    "classifier": (lambda: bert.classifier(classes=3, **SIZES), TEXTS),
    "mean": (lambda: bert.classifier(classes=3, pooling="mean", **SIZES), TEXTS),
    "pretrainer": (
        lambda: bert.pretrainer(**SIZES),
        {**TEXTS, "masked_lm_positions": np.array([[1, 2], [3, 0]], np.int32)},
    ),
    "span_finder": (lambda: bert.span_finder(**SIZES), TEXTS),
    "chooser": (
        lambda: bert.chooser(choices=2, **SIZES),
        {name: np.stack([each, each[::-1]], axis=1) for name, each in TEXTS.items()},
    ),
    "gnmt": (
        lambda: gnmt.gnmt(vocabulary_size=20, hidden_units=4, encoder_layers=4, decoder_layers=4),
        {"source_ids": IDS, "source_lengths": np.array([6, 1], np.int32), "target_ids": IDS[:, :5]},
    ),
}
QUICK = {"row_classifier"}


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in NETWORKS]
)
def test_a_network_of_the_package(name, tmp_path):
    build, inputs = NETWORKS[name]
    network = changed(build())
    paths = [write(network, tmp_path, inputs)]
    for backend in ("tensorflow", "jax"):
        read(paths, backend, tmp_path)
