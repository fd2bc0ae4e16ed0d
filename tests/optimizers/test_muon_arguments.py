"""Muon's arguments and its saved state, in both Kerases."""

import json
import warnings

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.keras_versions import (
    KERAS,
    KERAS_VERSIONS,
    fitted,
    make,
    small_data,
    small_model,
    tensor_variables,
    variables,
)
from tests.helpers.muon_weights import WEIGHTS

both_versions = pytest.mark.parametrize("keras_version", KERAS_VERSIONS)


def muon(keras_version):
    return make(keras_version, "Muon", learning_rate=0.02, normuon_beta=0.9, matrices=[["hidden", "matrix"]])


def continued(model):
    x, y = small_data(24)
    model.fit(x, y, batch_size=8, shuffle=False, verbose=0)
    return model.get_weights()


@pytest.mark.parametrize("keras_version", ["keras3", pytest.param("tf_keras", marks=pytest.mark.slow)])
def test_saved_state_is_continued(keras_version, tmp_path):
    """A .keras file, a checkpoint, and a file of weights by position."""
    model = fitted(keras_version, lambda: muon(keras_version), steps=3)
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    tf.train.Checkpoint(model=model, optimizer=model.optimizer).write(str(tmp_path / "checkpoint"))
    weights, state = model.get_weights(), [each.numpy() for each in tensor_variables(model.optimizer)]
    assert (1, 4) in [each.shape for each in state]
    after = continued(model)

    loaded = KERAS[keras_version].models.load_model(tmp_path / "model.keras")
    assert loaded.optimizer.get_config()["matrices"] == [["hidden", "matrix"]]
    for ours, theirs in zip(continued(loaded), after):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)
    for load in (
        lambda model: model.load_weights(tmp_path / "model.weights.h5"),
        lambda model: tf.train.Checkpoint(model=model, optimizer=model.optimizer).restore(str(tmp_path / "checkpoint")),
    ):
        again = small_model(keras_version)
        again.compile(optimizer=muon(keras_version), loss="mse")
        again.optimizer.build(again.trainable_variables)
        load(again)
        for ours, theirs in zip(again.get_weights(), weights):
            np.testing.assert_array_equal(ours, theirs)
        for ours, theirs in zip(tensor_variables(again.optimizer), state):
            np.testing.assert_array_equal(ours.numpy(), theirs)


@both_versions
def test_a_checkpoint_of_other_treatments_is_an_error(keras_version, tmp_path):
    """The state of a matrix is not that of a vector."""
    ours = variables(keras_version, WEIGHTS)
    optimizer = make(keras_version, "Muon")
    optimizer.build(ours)
    path = tf.train.Checkpoint(optimizer=optimizer).write(str(tmp_path / "checkpoint"))
    other = make(keras_version, "Muon", matrices=[("wide", "vector")])
    other.build(variables(keras_version, WEIGHTS))
    with pytest.raises(ValueError, match="holds another state than this Muon has.*not in it: m/wide_kernel"):
        tf.train.Checkpoint(optimizer=other).restore(path)


@both_versions
def test_the_config_is_of_plain_values_and_goes_round(keras_version):
    given = {
        "momentum": 0.9,
        "nesterov": False,
        "newton_schulz_steps": 6,
        "coefficients": "polar_express",
        "scale": "trust_ratio",
        "normuon_beta": 0.95,
        "matrices": {"a.*b": "groups:2", "c": "vector"},
        "vectors": "lamb",
        "vector_learning_rate_ratio": 0.5,
        "product_dtype": "bfloat16",
        "share_work": False,
    }
    config = make(keras_version, "Muon", **given).get_config()
    assert config["matrices"] == [["a.*b", "groups:2"], ["c", "vector"]]
    assert {**{name: config[name] for name in given}, "matrices": given["matrices"]} == given
    stored = json.loads(json.dumps({name: config[name] for name in given}))
    again = type(make(keras_version, "Muon")).from_config({**config, **stored})
    assert again.get_config() == config


@both_versions
@pytest.mark.parametrize(
    "arguments, said",
    [
        ({"momentum": 1.0}, "momentum=1.0 is out of range"),
        ({"newton_schulz_steps": 0}, "newton_schulz_steps=0 is not a number of Newton-Schulz steps"),
        ({"newton_schulz_steps": 2.5}, "newton_schulz_steps=2.5 is not a number"),
        ({"coefficients": (3.4, -4.8, 2.0)}, "expected 'quintic' or 'polar_express'"),
        ({"scale": "RMS"}, "scale='RMS' is unknown; expected 'rms', 'spectral' or 'trust_ratio'"),
        ({"normuon_beta": 1.0}, "normuon_beta=1.0 is out of range"),
        ({"vectors": "sgd"}, "vectors='sgd' is unknown; expected 'adam' or 'lamb'"),
        ({"vector_learning_rate_ratio": 0.0}, "vector_learning_rate_ratio=0.0 is out of range"),
        ({"product_dtype": "float16"}, "expected 'float32' or 'bfloat16'"),
        ({"share_work": 1}, "share_work=1 is neither True nor False"),
        ({"matrices": "softmax"}, "matrices='softmax'; expected pairs"),
        ({"matrices": 3}, "matrices=3; expected pairs"),
        ({"matrices": ["softmax"]}, "matrices holds 'softmax'; expected pairs"),
        ({"matrices": [("softmax", "vector", 1)]}, "expected pairs"),
        ({"matrices": {"softmax": "vektor"}}, "the treatment 'vektor' of 'softmax' is unknown.*Did you mean 'vector'"),
        ({"matrices": {"softmax": 3}}, "the treatment 3 of 'softmax' is unknown"),
        ({"matrices": {"softmax": "groups:0"}}, "the treatment 'groups:0' of 'softmax' is unknown"),
        ({"matrices": {"softmax": "in:1 out:1,2"}}, "the treatment 'in:1 out:1,2' of 'softmax' is unknown.*each once"),
        ({"matrices": {"softmax": "in:1"}}, "the treatment 'in:1' of 'softmax' is unknown"),
        ({"matrices": {"softmax": ["vector"]}}, "the treatment .*'vector'.* of 'softmax' is unknown"),
        ({"matrices": {"(": "vector"}}, "is not a regular expression"),
        ({"matrices": {3: "vector"}}, "3 is not a regular expression"),
        ({"ns_steps": 5}, "write newton_schulz_steps=5"),
        ({"adam_lr_ratio": 0.1}, "write vector_learning_rate_ratio=0.1"),
        ({"beta": 0.9}, "no argument 'beta'"),
    ],
)
def test_bad_arguments_say_what_was_expected(keras_version, arguments, said):
    with pytest.raises(ValueError, match=f"Muon.*{said}"):
        make(keras_version, "Muon", **arguments)


@both_versions
def test_what_the_state_depends_on_stays(keras_version):
    optimizer = make(keras_version, "Muon")
    optimizer.normuon_beta = 0.9
    optimizer.build(variables(keras_version, WEIGHTS))
    optimizer.momentum = 0.9
    with pytest.raises(ValueError, match="Muon: normuon_beta cannot be changed now.*made for normuon_beta=0.9"):
        optimizer.normuon_beta = None
    with pytest.raises(ValueError, match="Muon: matrices cannot be changed now"):
        optimizer.matrices = [("kernel", "vector")]
    assert (optimizer.momentum, optimizer.get_config()["normuon_beta"]) == (0.9, 0.9)


@both_versions
def test_treatments_are_checked_when_the_variables_are_known(keras_version):
    ours = variables(keras_version, WEIGHTS)
    with pytest.raises(ValueError, match="'heads' does not fit 'kernel'"):
        make(keras_version, "Muon", matrices=[("^kernel", "heads")]).build(ours)
    with pytest.warns(UserWarning, match="matrices: 'softmax' matches none of the 5 variables"):
        make(keras_version, "Muon", matrices=[("softmax", "vector")]).build(ours)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(keras_version, "Muon", matrices=[("^kernel", "vector")]).build(ours)


@both_versions
def test_a_long_matrix_warns_when_the_variables_are_known(keras_version):
    ours = variables(keras_version, {"query_kernel": np.ones((2, 80, 4))})
    with pytest.warns(UserWarning, match="reads .*query_kernel' of shape .* as 1 x .160, 4.: one side"):
        make(keras_version, "Muon", matrices=[("query", "rows:2")]).build(ours)
    for name in ("Muon", "Shampoo"):
        optimizer = make(keras_version, name, matrices=[("query", "in:1 out:0,2")])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            optimizer.build(ours)
        assert optimizer.get_config()["matrices"] == [["query", "in:1 out:0,2"]]
