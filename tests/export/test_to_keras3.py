"""Models of Keras 2 converted to Keras 3, and read from files in a fresh process: equal outputs."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfbigbatch.export.to_keras3 import convert
from tfbigbatch.models import alexnet, bert, gnmt, image_models, lstm_language_model, small_classifiers

_ALEXNET = {"image_size": 29, "classes": 3, "width": 12, "fc_units": 8, "stem": "5x5_stride2"}
QUICK = {
    "lenet": lambda: small_classifiers.lenet(shape=(12, 12), classes=4, brightest=255, filters=3, fc_units=10),
    "row_classifier": lambda: small_classifiers.row_classifier(
        shape=(8, 8), classes=4, brightest=16, hidden_units=3, projection_units=2, dropout=0.1
    ),
    "alexnet": lambda: alexnet.alexnet(**_ALEXNET),
}
SLOW = {
    "lstm_language_model": lambda: lstm_language_model.lstm_language_model(
        vocabulary_size=9, window=4, hidden_units=3, embedding_units=2, layers=2, dropout=0.1
    ),
    "alexnet_bn": lambda: alexnet.alexnet(**_ALEXNET, norm="batch", cross_replica_norm=True, groups=1),
    "resnet": lambda: image_models.build("resnet", image_size=16, classes=3, blocks=(1, 1), width=4),
}
SLOW |= {
    name: lambda name=name: image_models.build(name, image_size=32, classes=3, width=4)
    for name in image_models.NAMES
    if name.startswith("resnet") and name != "resnet"
}


SIZES = {
    **{"vocabulary_size": 20, "layers": 2, "hidden_units": 8, "heads": 2},
    **{"inner_units": 16, "max_positions": 12},
}
IDS = np.random.default_rng(0).integers(1, 20, (2, 6)).astype(np.int32)
MASK = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], np.int32)
TEXTS = {"input_word_ids": IDS, "input_mask": MASK, "input_type_ids": (IDS > 9).astype(np.int32)}
MASKED = {"masked_lm_positions": np.array([[1, 2], [3, 0]], np.int32)}
TEXT_MODELS = {
    "classifier": (lambda: bert.classifier(classes=3, **SIZES), TEXTS),
    "mean": (lambda: bert.classifier(classes=3, pooling="mean", **SIZES), TEXTS),
    "pretrainer": (lambda: bert.pretrainer(**SIZES), {**TEXTS, **MASKED}),
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


def changed(network, noise=0.02):
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
        if tensor.dtype.is_integer:
            return random.integers(0, 256 if tensor.dtype == tf.uint8 else 2, shape).astype(tensor.dtype.as_numpy_dtype)
        return random.normal(size=shape).astype("float32")

    return tf.nest.map_structure(values, network.input)


def check(network, path, inputs=None):
    inputs = inputs_of(network) if inputs is None else inputs
    convert(network).save(path)
    loaded = keras.saving.load_model(path, compile=False)
    assert loaded.name == network.name
    one, two = (tf.nest.flatten(model(inputs)) for model in (network, loaded))
    for ours, theirs in zip(one, two, strict=True):
        scale = np.abs(ours).max()
        assert scale > 0.0
        np.testing.assert_allclose(theirs, ours, rtol=1e-4, atol=1e-5 * scale)
    return loaded


@pytest.mark.parametrize("name", QUICK)
def test_a_model_of_the_package(name, tmp_path):
    network = changed(QUICK[name]())
    assert check(network, tmp_path / "model.keras").count_params() == network.count_params()


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_the_other_models(name, tmp_path):
    network = changed(SLOW[name]())
    assert check(network, tmp_path / "model.keras").count_params() == network.count_params()


@pytest.mark.slow
@pytest.mark.parametrize("name", TEXT_MODELS)
def test_both_files_of_a_model_of_texts_compute_the_same(name, tmp_path):
    build, inputs = TEXT_MODELS[name]
    network = changed(build(), noise=0.1)
    network.save(tmp_path / "two.keras")
    one, two = (tf.nest.flatten(each(inputs)) for each in (network, tf_keras.models.load_model(tmp_path / "two.keras")))
    for ours, theirs in zip(one, two, strict=True):
        np.testing.assert_array_equal(theirs, ours)
    assert set(check(network, tmp_path / "three.keras", inputs).input) == set(network.input)


@pytest.mark.slow
def test_a_fresh_process_needs_no_import_of_the_package(tmp_path):
    networks = {
        "bert": TEXT_MODELS["classifier"][0](),
        "gnmt": TEXT_MODELS["gnmt"][0](),
        "alexnet": alexnet.alexnet(**_ALEXNET),
    }
    for name, network in networks.items():
        network.save(tmp_path / f"{name}.keras")
    code = "; ".join(
        ["import tf_keras", *(f"print(tf_keras.models.load_model('{name}.keras').count_params())" for name in networks)]
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(network.count_params()) for network in networks.values()]


def own_model():
    """A model as a user may write it: two inputs and outputs, a nested and a shared model, operations, masks."""
    layers = tf_keras.layers
    words, numbers = tf_keras.Input((5,), dtype="int32", name="words"), tf_keras.Input((3,), name="numbers")
    tower = tf_keras.Sequential([layers.Dense(4, "gelu"), layers.LayerNormalization()], name="tower")
    embedded = layers.Embedding(7, 4, mask_zero=True)(words)
    read = layers.Bidirectional(layers.GRU(3))(embedded)
    attended = layers.MultiHeadAttention(2, 3)(embedded, embedded)
    pooled = layers.GlobalAveragePooling1D()(attended)
    scaled = layers.Normalization(mean=[0.5, 1.0, 2.0], variance=[1.0, 4.0, 9.0])(numbers)
    both = tower(layers.Dense(4)(scaled)) + tower(tf.nn.relu(pooled) * 2.0)
    joined = layers.Concatenate()([read, both])
    outputs = {"score": layers.Dense(1)(joined), "mean": tf.reduce_mean(joined, axis=-1, keepdims=True)}
    return tf_keras.Model({"words": words, "numbers": numbers}, outputs, name="own")


def test_a_functional_model_of_a_user(tmp_path):
    network = changed(own_model())
    loaded = check(network, tmp_path / "model.keras")
    assert set(loaded(inputs_of(network))) == {"score", "mean"}


class Double(tf_keras.layers.Layer):
    def call(self, inputs):
        return 2 * inputs


def test_what_keras_3_cannot_express_is_named():
    pixels = tf_keras.Input((4,))

    def refused(outputs, match):
        with pytest.raises(ValueError, match=match):
            convert(tf_keras.Model(pixels, outputs))

    refused(Double(name="twice")(pixels), r"layer 'twice' \(.*Double\) has no counterpart in Keras 3")
    refused(tf_keras.layers.Lambda(lambda x: x, name="same")(pixels), r"layer 'same' .*Lambda\) has no counterpart")
    refused(tf.math.cumsum(pixels), "is the operation tf.math.cumsum, for which no operation of Keras 3 is known")
    refused(tf_keras.layers.Dense(2, activation=lambda x: x, name="own")(pixels), "layer 'own' .*activation")
    subclassed = type("Own", (tf_keras.Model,), {"call": lambda self, inputs: inputs})(name="mine")
    with pytest.raises(ValueError, match=r"model 'mine' \(Own\) is not a functional model"):
        convert(subclassed)
