"""Saved models load in a process that imported tfbigbatch alone, before or after Keras."""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

import tfbigbatch
from tests.helpers import preloaded
from tests.helpers.keras_versions import KERAS, OPTIMIZERS
from tfbigbatch import registration

LOADER = os.path.join(preloaded.ROOT, "tests", "helpers", "saved_model_loader.py")
ANYWHERE = ("AdamW", "LAMB", "LARS", "Muon", "Shampoo", "Adam")


def optimizers(keras_version):
    """Each optimizer with a schedule, by the name of its class."""
    ours, keras = OPTIMIZERS[keras_version], KERAS[keras_version]
    recipe = tfbigbatch.Recipe(batch_size=4, learning_rate=0.01, warmup_epochs=0.5, epochs=4)

    def schedule():
        return recipe.at(16, "legw").schedule(64, keras=keras_version)

    made = {name: getattr(ours, name)(schedule()) for name in ANYWHERE[:-1]}
    made["Adam"] = keras.optimizers.Adam(schedule())
    made["Adasum"] = ours.Adasum(ours.LAMB(schedule()))
    made["LocalSteps"] = ours.LocalSteps(keras.optimizers.SGD(schedule()), every=2)
    if keras_version == "keras3":
        made["LossScaleOptimizer"] = ours.LossScaleOptimizer(ours.LAMB(schedule()))
    return made


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Files of models, by Keras, then by the class of the optimizer; and what the loader prints for each."""
    files, lines = {}, {}
    for keras_version in KERAS:
        keras, folder = KERAS[keras_version], tmp_path_factory.mktemp(keras_version)
        files[keras_version] = {}
        for name, optimizer in optimizers(keras_version).items():
            model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(2)])
            model.compile(optimizer=optimizer, loss="mse")
            optimizer.build(model.trainable_variables)
            path = files[keras_version][name] = str(folder / f"{name}.keras")
            model.save(path)
            rate = float(np.asarray(getattr(optimizer, "inner_optimizer", optimizer).learning_rate))
            lines[path] = f"{name} 0 {round(rate, 6)}"
    return files, lines


def check(output, files, saved):
    assert output.splitlines() == [saved[1][path] for path in files]


def in_a_fresh_process(modules, files, **environment):
    command = [sys.executable, LOADER, modules, *files]
    outcome = subprocess.run(
        command, cwd=preloaded.ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=240
    )
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    return outcome.stdout


@pytest.mark.parametrize("keras_version, keras", [("keras3", "keras"), ("tf_keras", "tf_keras")])
def test_a_saved_model_loads_where_keras_is_imported_already(saved, keras_version, keras):
    files = saved[0][keras_version].values()
    outcome = preloaded.run(LOADER, f"{keras},tfbigbatch", *files)
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    check(outcome.stdout, files, saved)


@pytest.mark.parametrize("backend", ["jax", "torch"])
@pytest.mark.parametrize("modules", ["tfbigbatch,keras", pytest.param("keras,tfbigbatch", marks=pytest.mark.slow)])
def test_a_saved_model_loads_on_another_backend(saved, modules, backend):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    files = [saved[0]["keras3"][name] for name in ANYWHERE]
    check(in_a_fresh_process(modules, files, KERAS_BACKEND=backend), files, saved)


# TensorFlow imports Keras before its own import ends.
@pytest.mark.slow
@pytest.mark.parametrize("order", ["tfbigbatch,{}", "tfbigbatch,tensorflow,{}"])
@pytest.mark.parametrize("keras_version, keras", [("keras3", "keras"), ("tf_keras", "tf_keras")])
def test_a_saved_model_loads_where_keras_is_imported_later(saved, order, keras_version, keras):
    files, legacy = saved[0][keras_version].values(), str(int(keras_version == "tf_keras"))
    check(in_a_fresh_process(order.format(keras), files, TF_USE_LEGACY_KERAS=legacy), files, saved)


def test_a_failure_to_register_leaves_keras_usable(monkeypatch):
    monkeypatch.setitem(registration._MODULES, "keras", ("tfbigbatch.no_such_module",))
    with pytest.warns(UserWarning, match="could not register its classes with keras.*no_such_module"):
        registration._register("keras")
