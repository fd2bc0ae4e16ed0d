"""A batch ramp in anyone's `fit`: its logs, and what is refused before anything is trained."""

import csv

import pytest
import tensorflow as tf

from tests.conftest import mirrored
from tests.helpers.keras_versions import KERAS, OPTIMIZERS, both_versions, make, small_data, small_model
from tfbigbatch import BatchRamp, Recipe
from tfbigbatch.scaling import RampLog

SIZE, MICRO = 64, 4
RAMP = BatchRamp.doubling(Recipe(8, 0.01, epochs=4), 32, over="2 epochs")


def ramp_log(ramp=RAMP, **options):
    return RampLog(ramp, **{"dataset_size": SIZE, "micro_batch_size": MICRO, **options})


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
def test_the_logs_of_each_epoch(keras_version, replicas, tmp_path):
    model = compiled(keras_version, strategy=mirrored(2) if replicas == 2 else None)
    logger = KERAS[keras_version].callbacks.CSVLogger(tmp_path / "log.csv")
    history = fit(model, [ramp_log(), logger]).history
    assert history["batch_size"] == [8, 16, 32, 32] and history["examples"] == [64, 128, 192, 256]
    assert model.optimizer.iterations.numpy() == 8 + 4 + 2 + 2 == RAMP.stages(SIZE)[-1].last_step
    with open(tmp_path / "log.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["batch_size"], row["examples"]) for row in rows][1] == ("16", "128")


@both_versions
def test_a_resumed_run_continues_its_logs(keras_version, tmp_path):
    first, second = compiled(keras_version), compiled(keras_version)
    fit(first, [], epochs=1)
    # In the middle of a step of batch 16.
    fit(first, [], epochs=1, steps_per_epoch=3)
    for model in (first, second):
        model.optimizer.build(model.trainable_variables)
    path = tf.train.Checkpoint(model=first, optimizer=first.optimizer).write(str(tmp_path / "middle"))
    tf.train.Checkpoint(model=second, optimizer=second.optimizer).read(path)
    history = fit(second, [ramp_log()], epochs=2, initial_epoch=1, steps_per_epoch=12).history
    assert history["examples"] == [64 + 3 * MICRO + 12 * MICRO] and history["batch_size"] == [16]


@both_versions
def test_an_optimizer_that_accumulates_otherwise_is_refused(keras_version):
    for optimizer, message in (
        (KERAS[keras_version].optimizers.SGD, "SGD has accumulation_steps=.no such argument.*Give LARS, LAMB, Muon"),
        (lambda: make(keras_version, "LAMB", accumulation_steps=2), "LAMB has accumulation_steps=.*, the ramp Accum"),
        (lambda: make(keras_version, "LAMB", accumulation_steps=RAMP.accumulation(SIZE, 8)), "LAMB has accumulation_"),
    ):
        with pytest.raises(ValueError, match=message):
            fit(compiled(keras_version, optimizer), [ramp_log()])


@both_versions
def test_within_adasum(keras_version):
    accumulation = RAMP.accumulation(SIZE, MICRO)
    model = compiled(
        keras_version,
        lambda: OPTIMIZERS[keras_version].Adasum(make(keras_version, "LAMB", accumulation_steps=accumulation)),
    )
    assert fit(model, [ramp_log()]).history["examples"][-1] == 256


@both_versions
def test_a_fit_that_never_reaches_the_last_batch_is_refused(keras_version):
    callback = ramp_log()
    callback.set_model(compiled(keras_version))
    callback.set_params({"epochs": 4, "steps": 8})
    with pytest.raises(ValueError, match="4 epochs of 8 batches, 32 in all; .* begins after 32 batches of 4 examples"):
        callback.on_train_begin()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"ramp": RAMP.recipe}, "is not a tfbigbatch.BatchRamp"),
        ({"micro_batch_size": 3}, "micro_batch_size=3 does not divide the ramp's first batch"),
        ({"dataset_size": 16}, "the ramp grows to a batch of 32"),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        ramp_log(**options)
