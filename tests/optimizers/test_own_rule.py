"""An optimizer from outside the package, in one file and one line: the Lion of docs/optimizers.md, against NumPy.

`KERAS_BACKEND=jax python -m tests.optimizers.test_own_rule FOLDER` trains with FOLDER/lion.py, and continues FOLDER's
model that was trained on TensorFlow; it leaves the weights in FOLDER/jax.npz.
"""

import importlib.util
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from tests.helpers.repository import ROOT, read
from tfbigbatch import keras_version as kerases
from tfbigbatch import optimizers

STEPS, BATCH = 12, 8
both_versions = pytest.mark.parametrize("keras_version", sorted(kerases.PACKAGES))


def lion_of(folder):
    """Imports FOLDER/lion.py, which registers the optimizer, and gives its module."""
    spec = importlib.util.spec_from_file_location("lion", os.path.join(folder, "lion.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path):
    """A folder with the page's file, which has been imported."""
    blocks = re.findall(r"^```python\n(.*?)^```$", read("docs", "optimizers.md"), re.DOTALL | re.MULTILINE)
    [code] = [block for block in blocks if "class Lion(Rule)" in block]
    (tmp_path / "lion.py").write_text(code)
    lion_of(tmp_path)
    return tmp_path


def data():
    random = np.random.RandomState(0)
    return random.normal(size=(STEPS * BATCH, 3)), random.normal(size=(STEPS * BATCH, 2))


START = np.random.RandomState(1).normal(size=(3, 2)), np.zeros(2)


def lion_run():
    """The kernel and the bias after all batches, in float64: a linear model, which Lion fits by mean squares."""
    weights, momenta = [np.array(each) for each in START], [np.zeros_like(each) for each in START]
    x, y = data()
    for step in range(STEPS):
        rate, decay = 0.02 - 0.015 * step / STEPS, 0.5 * (1 - step / STEPS)
        rows = slice(step * BATCH, (step + 1) * BATCH)
        error = 2 * (x[rows] @ weights[0] + weights[1] - y[rows]) / (2 * BATCH)
        gradients = [x[rows].T @ error, error.sum(axis=0)]
        for index, gradient in enumerate(gradients):
            direction = np.sign(0.9 * momenta[index] + 0.1 * gradient)
            # The bias does not decay.
            weights[index] -= rate * (direction + (decay if index == 0 else 0.0) * weights[index])
            momenta[index] = 0.99 * momenta[index] + 0.01 * gradient
    return weights


def compiled(keras_version):
    """The linear model with Lion, whose rate and decay fall."""
    keras = kerases.keras_package(keras_version)
    falling = keras.optimizers.schedules.PolynomialDecay
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(2, name="linear")])
    rate, decay = falling(0.02, STEPS, 0.005), falling(0.5, STEPS, 0.0)
    model.compile(optimizers.get("lion", keras=keras_version, learning_rate=rate, weight_decay=decay), "mse")
    model.set_weights(START)
    return model


def fit(model, steps):
    x, y = (array[steps.start * BATCH : steps.stop * BATCH].astype("float32") for array in data())
    model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0)
    return model.get_weights()


FIRST, SECOND = range(5), range(5, STEPS)


def assert_is_lion(weights):
    for actual, expected in zip(weights, lion_run(), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@both_versions
def test_it_follows_numpy_in_fit_also_when_saved_and_loaded_between(keras_version, folder):
    model, path = compiled(keras_version), folder / "model.keras"
    fit(model, FIRST)
    model.save(path)
    loaded = kerases.keras_package(keras_version).models.load_model(path)
    assert type(loaded.optimizer) is type(model.optimizer) and loaded.optimizer.name == "Lion"
    for each in (model, loaded):
        assert_is_lion(fit(each, SECOND))


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")
def test_it_follows_numpy_on_jax_and_loads_in_a_process_of_its_own(folder):
    model = compiled("keras3")
    fit(model, FIRST)
    model.save(folder / "model.keras")
    command = [sys.executable, "-m", "tests.optimizers.test_own_rule", str(folder)]
    environment = {**os.environ, "KERAS_BACKEND": "jax", "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "could not register" not in done.stderr, done.stderr[-3000:]
    found = np.load(folder / "jax.npz")
    for name in ("whole", "continued"):
        assert_is_lion([found[f"{name} {index}"] for index in range(2)])


@both_versions
def test_its_updates_are_sharded(keras_version, folder):
    from tests.conftest import mirrored
    from tests.helpers.keras_versions import ONE_DEVICE, assert_same_weights, fitted

    def make(**options):
        return lambda: optimizers.get("lion", keras=keras_version, learning_rate=0.01, weight_decay=0.1, **options)

    sharded = fitted(keras_version, make(shard_updates=True), mirrored(2))
    assert {layer.owner for layer in sharded.optimizer._place.layers} == {0, 1}
    assert_same_weights(sharded, fitted(keras_version, make(), ONE_DEVICE))


def test_its_arguments_are_declared_checked_and_explained(folder):
    from tfbigbatch.optimizers import registry

    fields = registry.fields("lion")
    assert (fields["learning_rate"], fields["beta_2"], fields["accumulation_steps"]) == (1e-4, 0.99, 1)
    with pytest.raises(ValueError, match="beta_2=1.0 is out of range"):
        registry.check_fields("lion", {"beta_2": 1.0})
    with pytest.raises(ValueError, match="no argument 'b1'. Did you mean 'beta_1'"):
        optimizers.get("lion", b1=0.9)
    assert "beta_1: decay of the momentum in the step." in type(optimizers.get("lion")).__doc__


@both_versions
def test_one_with_the_name_of_ours_leaves_ours_in_its_files(keras_version, folder):
    ours = kerases.module_for("tfbigbatch.optimizers", keras_version)

    class LAMB(lion_of(folder).Lion):
        pass

    class OfOneKeras(ours.LAMB):
        pass

    optimizers.register("other", LAMB)
    optimizers.register("of one", OfOneKeras)
    theirs = kerases.keras_package(keras_version).optimizers
    for name, kind in (("other", LAMB), ("lamb", ours.LAMB)):
        optimizer = optimizers.get(name, keras=keras_version)
        assert isinstance(theirs.deserialize(theirs.serialize(optimizer)), kind)
    assert type(optimizers.get("of one", keras=keras_version)) is OfOneKeras


if __name__ == "__main__":
    lion_of(sys.argv[1])
    # Before Keras is imported.
    optimizers.get("lion", keras="keras3")
    import keras

    loaded = keras.models.load_model(os.path.join(sys.argv[1], "model.keras"))
    found = {"whole": fit(compiled("keras3"), range(STEPS)), "continued": fit(loaded, SECOND)}
    assert "tensorflow" not in sys.modules
    weights = {f"{name} {index}": each for name, pair in found.items() for index, each in enumerate(pair)}
    np.savez(os.path.join(sys.argv[1], "jax.npz"), **weights)
