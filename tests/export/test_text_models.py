"""BERT and GNMT: files of Keras 2 in a fresh process, and models of Keras 3, with equal outputs."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.export.test_to_keras3 import changed
from tfbigbatch.export.to_keras3 import convert
from tfbigbatch.models import alexnet, bert, gnmt

pytestmark = pytest.mark.slow
SIZES = {
    **{"vocabulary_size": 20, "layers": 2, "hidden_units": 8, "heads": 2},
    **{"inner_units": 16, "max_positions": 12},
}
IDS = np.random.default_rng(0).integers(1, 20, (2, 6)).astype(np.int32)
MASK = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], np.int32)
TEXTS = {"input_word_ids": IDS, "input_mask": MASK, "input_type_ids": (IDS > 9).astype(np.int32)}
MASKED = {"masked_lm_positions": np.array([[1, 2], [3, 0]], np.int32)}
MODELS = {
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


def assert_close(expected, found, **tolerances):
    for ours, theirs in zip(tf.nest.flatten(expected), tf.nest.flatten(found), strict=True):
        assert np.abs(ours).max() > 0.01
        np.testing.assert_allclose(theirs, ours, **tolerances)


@pytest.mark.parametrize("name", MODELS)
def test_both_files_compute_the_same(name, tmp_path):
    build, inputs = MODELS[name]
    network = changed(build(), noise=0.1)
    expected = network(inputs)
    network.save(tmp_path / "two.keras")
    assert_close(expected, tf_keras.models.load_model(tmp_path / "two.keras")(inputs), rtol=0, atol=0)
    convert(network).save(tmp_path / "three.keras")
    loaded = keras.saving.load_model(tmp_path / "three.keras")
    assert set(loaded.input) == set(network.input)
    assert_close(expected, loaded(inputs), rtol=1e-4, atol=1e-5)


def test_a_fresh_process_needs_no_import_of_the_package(tmp_path):
    networks = {
        "bert": MODELS["classifier"][0](),
        "gnmt": MODELS["gnmt"][0](),
        "alexnet": alexnet.alexnet(image_size=29, classes=3, width=12, fc_units=8, stem="5x5_stride2"),
    }
    for name, network in networks.items():
        network.save(tmp_path / f"{name}.keras")
    code = "; ".join(
        ["import tf_keras", *(f"print(tf_keras.models.load_model('{name}.keras').count_params())" for name in networks)]
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(network.count_params()) for network in networks.values()]
