"""A batch ramp in anyone's `fit`: its logs, and what is refused before anything is trained."""

import csv
import importlib

import pytest
import tensorflow as tf

from tests.conftest import mirrored
from tests.helpers.keras_versions import KERAS, KERAS_VERSIONS, OPTIMIZERS, make, small_data, small_model
from tfbigbatch import BatchRamp, Recipe

both_versions = pytest.mark.parametrize("keras_version", KERAS_VERSIONS)
SIZE, MICRO = 64, 4
RAMP = BatchRamp.doubling(Recipe(8, 0.01, epochs=4), 32, over="2 epochs")
SCALING = {
    name: importlib.import_module(f"tfbigbatch.scaling.{module}")
    for name, module in (("tf_keras", "keras2"), ("keras3", "keras3"))
}


def ramp_log(keras_version, ramp=RAMP, **options):
    return SCALING[keras_version].RampLog(ramp, **{"dataset_size": SIZE, "micro_batch_size": MICRO, **options})


def compiled(keras_version, optimizer=None, strategy=None):
    with (strategy or tf.distribute.get_strategy()).scope():
        model = small_model(keras_version)
        accumulation, rate = RAMP.accumulation(SIZE, MICRO), RAMP.schedule(SIZE, keras=keras_version)
        optimizer = optimizer or (
            lambda: make(keras_version, "LAMB", learning_rate=rate, accumulation_steps=accumulation)
        )
        model.compile(optimizer(), "mse", jit_compile=False)
    return model


def fit(model, callbacks, epochs=4, batch_size=MICRO, **options):
    x, y = small_data(SIZE)
    return model.fit(x, y, batch_size=batch_size, epochs=epochs, callbacks=callbacks, verbose=0, **options)


@both_versions
@pytest.mark.parametrize("replicas", [1, 2])
def test_the_logs_of_each_epoch(keras_version, replicas, tmp_path, capsys):
    model = compiled(keras_version, strategy=mirrored(2) if replicas == 2 else None)
    logger = KERAS[keras_version].callbacks.CSVLogger(tmp_path / "log.csv")
    history = fit(model, [ramp_log(keras_version), logger]).history
    assert history["batch_size"] == [8, 16, 32, 32] and history["examples"] == [64, 128, 192, 256]
    assert model.optimizer.iterations.numpy() == 8 + 4 + 2 + 2 == RAMP.total_steps(SIZE)
    with open(tmp_path / "log.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["batch_size"], row["examples"]) for row in rows][1] == ("16", "128")
    assert "RampLog" not in capsys.readouterr().out


@both_versions
def test_a_resumed_run_continues_its_logs(keras_version, tmp_path, capsys):
    first, second = compiled(keras_version), compiled(keras_version)
    fit(first, [], epochs=1)
    # In the middle of a step of batch 16.
    fit(first, [], epochs=1, steps_per_epoch=3)
    for model in (first, second):
        model.optimizer.build(model.trainable_variables)
    path = tf.train.Checkpoint(model=first, optimizer=first.optimizer).write(str(tmp_path / "middle"))
    tf.train.Checkpoint(model=second, optimizer=second.optimizer).read(path)
    history = fit(second, [ramp_log(keras_version)], epochs=2, initial_epoch=1, steps_per_epoch=12).history
    assert history["examples"] == [64 + 3 * MICRO + 12 * MICRO] and history["batch_size"] == [16]
    assert "RampLog" not in capsys.readouterr().out


@both_versions
@pytest.mark.parametrize("name", ["AdamW", "SGD"])
def test_keras_own_optimizers_are_refused(keras_version, name):
    model = compiled(keras_version, lambda: getattr(KERAS[keras_version].optimizers, name)())
    message = f"{name} takes no accumulation_steps. LARS, LAMB, Muon, Shampoo and optimizers.AdamW of tfbigbatch"
    with pytest.raises(ValueError, match=message):
        fit(model, [ramp_log(keras_version)])


@both_versions
@pytest.mark.parametrize("accumulation_steps", [1, 2, RAMP.accumulation(SIZE, 8)])
def test_another_accumulation_is_refused(keras_version, accumulation_steps):
    model = compiled(keras_version, lambda: make(keras_version, "LAMB", accumulation_steps=accumulation_steps))
    with pytest.raises(ValueError, match="LAMB has accumulation_steps=.*, the ramp AccumulationSchedule"):
        fit(model, [ramp_log(keras_version)])


@both_versions
def test_within_adasum(keras_version):
    accumulation = RAMP.accumulation(SIZE, MICRO)
    model = compiled(
        keras_version,
        lambda: OPTIMIZERS[keras_version].Adasum(make(keras_version, "LAMB", accumulation_steps=accumulation)),
    )
    assert fit(model, [ramp_log(keras_version)]).history["examples"][-1] == 256


def begin(keras_version, epochs, steps, **options):
    callback = ramp_log(keras_version, **options)
    callback.set_model(compiled(keras_version))
    callback.set_params({"epochs": epochs, "steps": steps})
    callback.on_train_begin()


@both_versions
def test_a_fit_that_never_reaches_the_last_batch_is_refused(keras_version):
    with pytest.raises(ValueError, match="4 epochs of 8 batches, 32 in all; .* begins after 32 batches of 4 examples"):
        begin(keras_version, 4, 8)


@both_versions
@pytest.mark.parametrize("epochs, when", [(3, "after"), (6, "before")])
def test_a_fit_of_another_length_is_told(keras_version, epochs, when, capsys):
    begin(keras_version, epochs, 16)
    assert f"and the ramp's run 64 of 4 examples: its learning rate ends {when} fit does." in capsys.readouterr().out
    begin(keras_version, epochs, 16, verbose=False)
    begin(keras_version, 4, 15)  # incomplete micro-batches left out
    begin(keras_version, 4, None)
    assert "RampLog" not in capsys.readouterr().out


@both_versions
def test_an_incomplete_last_batch_is_told(keras_version, capsys):
    begin(keras_version, 4, 16, dataset_size=62)
    assert "62 examples are no whole batches of 4. If the last of an epoch has 2" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options, message",
    [
        ({"ramp": RAMP.recipe}, "is not a tfbigbatch.BatchRamp"),
        ({"micro_batch_size": 3}, "micro_batch_size=3 does not divide the ramp's first batch"),
        ({"dataset_size": 16}, "the ramp grows to a batch of 32"),
        ({"verbose": "yes"}, "verbose='yes' is neither True nor False"),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        ramp_log("keras3", **options)
