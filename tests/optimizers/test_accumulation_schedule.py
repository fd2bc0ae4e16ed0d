"""A number of micro-batches that changes while `fit` runs: equal to batches that grow, wherever it runs."""

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import mirrored
from tests.helpers.keras_versions import KERAS, assert_same_weights, both_versions, make
from tfbigbatch import BatchRamp, Recipe
from tfbigbatch.optimizers import AccumulationSchedule, registry

SIZE, MICRO = 96, 8
RAMP = BatchRamp(
    Recipe(8, 0.02, 1.0, epochs=2, decay="cosine"), [("24 examples", 16), ("56 examples", 24), ("128 examples", 32)]
)
SCHEDULE = AccumulationSchedule([1, 2, 3, 4], [3, 2, 3, 2])


def model_of(keras_version, optimizer, strategy=None, dtype="float64", **compile_arguments):
    keras = KERAS[keras_version]
    keras.utils.set_random_seed(0)
    with (strategy or tf.distribute.get_strategy()).scope():
        layers = [
            keras.layers.Input((4,), dtype=dtype),
            keras.layers.Dense(6, activation="tanh", dtype=dtype),
            keras.layers.Dense(2, dtype=dtype),
        ]
        model = keras.Sequential(layers)
        model.compile(optimizer(), loss="mse", **{"jit_compile": False, **compile_arguments})
    return model


def data(dtype="float64"):
    random = np.random.RandomState(0)
    return random.normal(size=(2 * SIZE, 4)).astype(dtype), random.normal(size=(2 * SIZE, 2)).astype(dtype)


def fit(model, first=0, last=24, dtype="float64"):
    """Micro-batches [first, last) of the run, in their order."""
    x, y = (each[first * MICRO : last * MICRO] for each in data(dtype))
    model.fit(x, y, batch_size=MICRO, shuffle=False, verbose=0)
    return model


def optimizer_of(keras_version, name, accumulation_steps, **options):
    options = {"learning_rate": RAMP.schedule(SIZE, keras=keras_version), **options}
    return make(keras_version, name, accumulation_steps=accumulation_steps, **options)


def in_whole_batches(keras_version, name, **options):
    """The same model, given each step's examples as one batch."""
    model = model_of(keras_version, lambda: optimizer_of(keras_version, name, 1, **options), run_eagerly=True)
    x, y = data()
    for stage in RAMP.stages(SIZE):
        for step in range(stage.steps):
            begin = stage.first_example + step * stage.batch_size
            model.train_on_batch(x[begin : begin + stage.batch_size], y[begin : begin + stage.batch_size])
    return model


def test_the_schedule_of_a_ramp():
    found = RAMP.accumulation(SIZE, MICRO)
    assert found == SCHEDULE and hash(found) == hash(SCHEDULE) and found != AccumulationSchedule([1], [3])
    counts = [1, 1, 1, 2, 2, 3, 3, 3, 4, 4, 4, 4]
    assert [int(found(step)) for step in range(12)] == counts
    assert found(tf.range(12)).numpy().tolist() == counts and found(3).dtype == tf.int64
    assert [found.micro_batches_before(step) for step in range(13)] == np.cumsum([0, *counts]).tolist()
    assert repr(found) == "AccumulationSchedule(micro_batches=[1, 2, 3, 4], steps=[3, 2, 3, 2])"
    halves = RAMP.accumulation(SIZE, MICRO // 2)
    assert halves.micro_batches == (2, 4, 6, 8) and halves.steps == found.steps


@both_versions
@pytest.mark.parametrize("name, tolerance", [("LAMB", 1e-6), ("Muon", 1e-5)])
def test_a_whole_ramp_is_that_of_the_concatenated_batches(keras_version, name, tolerance):
    # The weights are in float64; Keras' losses are in float32, and so are Muon's products.
    whole = in_whole_batches(keras_version, name)
    parts = fit(model_of(keras_version, lambda: optimizer_of(keras_version, name, SCHEDULE)))
    assert int(parts.optimizer.iterations) == int(whole.optimizer.iterations) == RAMP.total_steps(SIZE) == 10
    assert_same_weights(parts, whole, rtol=tolerance, atol=tolerance)


@both_versions
@pytest.mark.parametrize(
    "where, name",
    [
        ("eager", "Muon"),
        ("xla", "LAMB"),
        ("mirrored", "LAMB"),
        pytest.param("layer_xla", "Muon", marks=pytest.mark.slow),
        pytest.param("mirrored", "Muon", marks=pytest.mark.slow),
    ],
)
def test_the_same_wherever_it_runs(keras_version, where, name):
    options = {"global_clipnorm": 0.3, "weight_decay": 0.1, "jit_compile": where == "layer_xla"}
    whole = in_whole_batches(keras_version, name, **options)
    parts = model_of(
        keras_version,
        lambda: optimizer_of(keras_version, name, SCHEDULE, **options),
        mirrored(2) if where == "mirrored" else None,
        jit_compile=where == "xla",
        run_eagerly=where == "eager",
    )
    assert_same_weights(fit(parts), whole, rtol=1e-5, atol=1e-6)


@both_versions
def test_a_checkpoint_in_the_middle_of_an_accumulation(keras_version, tmp_path):
    before = 11  # micro-batches: the second of three

    def new():
        optimizer = lambda: optimizer_of(keras_version, "LAMB", SCHEDULE)
        return model_of(keras_version, optimizer, dtype="float32", run_eagerly=True)

    def checkpoint(model):
        model.optimizer.build(model.trainable_variables)
        return tf.train.Checkpoint(model=model, optimizer=model.optimizer)

    whole = fit(new(), dtype="float32")
    first = fit(new(), last=before, dtype="float32")
    path = checkpoint(first).write(str(tmp_path / "middle"))
    resumed = new()
    checkpoint(resumed).read(path).assert_consumed()
    fit(resumed, first=before, dtype="float32")
    assert_same_weights(resumed, whole, rtol=0, atol=0)


@pytest.mark.parametrize("keras_version, suffix", [("keras3", "keras"), ("tf_keras", "keras"), ("tf_keras", "h5")])
def test_saved_and_loaded_with_the_model(keras_version, suffix, tmp_path):
    # tf_keras reads none of this package's learning-rate schedules from `.h5`.
    rate = {"learning_rate": 0.01} if suffix == "h5" else {}
    model = model_of(keras_version, lambda: optimizer_of(keras_version, "LAMB", SCHEDULE, **rate), dtype="float32")
    fit(model, last=11, dtype="float32")
    path = str(tmp_path / f"model.{suffix}")
    model.save(path)
    loaded = KERAS[keras_version].models.load_model(path)
    assert loaded.optimizer.accumulation_steps == SCHEDULE
    for each in (model, loaded):
        fit(each, first=11, dtype="float32")
    assert_same_weights(loaded, model, rtol=0, atol=0)
    assert int(loaded.optimizer.iterations) == 10


@pytest.mark.parametrize(
    "make_schedule, message",
    [
        (lambda: AccumulationSchedule([], []), "expected one number of micro-batches for each stage"),
        (lambda: AccumulationSchedule([0], [3]), r"micro_batches\[0\]=0 is out of range"),
        (lambda: RAMP.accumulation(SIZE, 6), "micro_batch_size=6 does not divide the ramp's first batch, 8; .* 2 or 8"),
        (lambda: RAMP.accumulation(16, MICRO), "the ramp grows to a batch of 32"),
        (
            lambda: make("keras3", "LAMB", accumulation_steps=RAMP),
            r"is not a number of micro-batches; .*, or BatchRamp.accumulation\(...\)",
        ),
        (
            lambda: registry.get("adamw", accumulation_steps=SCHEDULE),
            r"takes no argument 'accumulation_steps'. LARS, LAMB, Muon, Shampoo and tfbigbatch.optimizers.AdamW",
        ),
    ],
)
def test_wrong_input(make_schedule, message):
    with pytest.raises(ValueError, match=message):
        make_schedule()
