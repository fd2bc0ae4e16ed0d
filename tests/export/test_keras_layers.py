"""Networks rebuilt of Keras' own layers, and their files read where this package is not: equal outputs."""

import os
import subprocess
import sys

import keras
import numpy as np
import pytest
from keras import layers, ops

from tests.recorded.networks import NETWORKS, built, inputs_of
from tfbigbatch.export.keras_layers import in_keras_layers

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
    """A network with two of a kind, and inputs and outputs of two names."""
    one, two = keras.Input((4,), name="one"), keras.Input((4,), name="two")
    both = one + Stack(name="dense")(two)[:, :1] * two
    outputs = {
        "first": Stack(name="stack")(both),
        "second": Scaled(name="scaled")(layers.Dense(3, name="dense_1")(both)),
    }
    network = keras.Model({"one": one, "two": two}, outputs, name="own")
    random = np.random.default_rng(0)
    # Gammas, betas and means of 0 would hide an error, and so would variances of 1.
    network.set_weights([np.abs(random.normal(0.5, 0.2, each.shape)) for each in network.get_weights()])
    return network


def write(network, path, inputs):
    """The network in Keras' layers in a file, its inputs and its outputs in another."""
    in_keras_layers(network).save(path)
    given, found = keras.tree.flatten(inputs), keras.tree.flatten(network(inputs))
    kept = {f"in:{number:02}": each for number, each in enumerate(given)}
    kept |= {f"out:{number:02}": ops.convert_to_numpy(each) for number, each in enumerate(found)}
    np.savez(path.with_suffix(".npz"), **kept)
    return str(path)


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
    inputs = {name: np.random.default_rng(1).normal(size=(3, 4)).astype("float32") for name in ("one", "two")}
    read([write(own_layers(), tmp_path / "own.keras", inputs)], backend, tmp_path)
    names = {layer.name for layer in in_keras_layers(own_layers()).layers}
    assert names >= {"stack_band_band", "stack_dense", "stack_norm", "scaled", "dense_1", "dense_band_band"}


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


QUICK = {"row classifier, projection"}


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
@pytest.mark.parametrize("names", [QUICK, pytest.param(NETWORKS.keys() - QUICK, marks=pytest.mark.slow)])
def test_the_networks_of_the_package(names, backend, tmp_path):
    pytest.importorskip(backend)
    keras.utils.clear_session()
    networks = [
        (each, built(each), inputs_of(each)) for each in sorted(names) if "mixed" not in each and "gnmt" not in each
    ]
    read([write(network, tmp_path / f"{name}.keras", inputs) for name, network, inputs in networks], backend, tmp_path)
