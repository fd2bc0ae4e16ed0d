"""A number of micro-batches that changes while `fit` runs: equal to batches that grow, wherever it runs."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import mirrored
from tests.helpers.keras_versions import assert_same_weights
from tfbigbatch import BatchRamp, Recipe
from tfbigbatch.optimizers import keras3, registry
from tfbigbatch.optimizers.rule import AccumulationSchedule

SIZE, MICRO = 96, 8
RAMP = BatchRamp(
    Recipe(8, 0.02, 1.0, epochs=2, decay="cosine"), [("24 examples", 16), ("56 examples", 24), ("128 examples", 32)]
)
SCHEDULE = AccumulationSchedule([1, 2, 3, 4], [3, 2, 3, 2])


def model_of(optimizer, strategy=None, **compile_arguments):
    keras.utils.set_random_seed(0)
    with (strategy or tf.distribute.get_strategy()).scope():
        layers = [
            keras.layers.Input((4,), dtype="float64"),
            keras.layers.Dense(6, activation="tanh", dtype="float64"),
            keras.layers.Dense(2, dtype="float64"),
        ]
        model = keras.Sequential(layers)
        model.compile(optimizer(), loss="mse", **{"jit_compile": False, **compile_arguments})
    return model


def data():
    random = np.random.RandomState(0)
    return random.normal(size=(2 * SIZE, 4)), random.normal(size=(2 * SIZE, 2))


def fit(model):
    """The run in micro-batches, in their order."""
    model.fit(*data(), batch_size=MICRO, shuffle=False, verbose=0)


def optimizer_of(name, accumulation_steps, **options):
    options = {"learning_rate": RAMP.schedule(SIZE, keras="keras3"), **options}
    return getattr(keras3, name)(accumulation_steps=accumulation_steps, **options)


def in_whole_batches(name, **options):
    """The same model, given each step's examples as one batch."""
    model = model_of(lambda: optimizer_of(name, 1, **options), run_eagerly=True)
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
    assert repr(found) == "AccumulationSchedule(micro_batches=(1, 2, 3, 4), steps=(3, 2, 3, 2))"
    halves = RAMP.accumulation(SIZE, MICRO // 2)
    assert halves.micro_batches == (2, 4, 6, 8) and halves.steps == found.steps


@pytest.mark.parametrize(
    "where, name",
    [
        ("graph", "LAMB"),
        ("graph", "Muon"),
        ("eager", "Muon"),
        ("xla", "LAMB"),
        ("mirrored", "LAMB"),
        pytest.param("layer_xla", "Muon", marks=pytest.mark.slow),
        pytest.param("mirrored", "Muon", marks=pytest.mark.slow),
    ],
)
def test_a_whole_ramp_is_that_of_the_concatenated_batches_wherever_it_runs(where, name):
    options = {"global_clipnorm": 0.3, "weight_decay": 0.1, "jit_compile": where == "layer_xla"}
    whole = in_whole_batches(name, **options)
    parts = model_of(
        lambda: optimizer_of(name, SCHEDULE, **options),
        mirrored(2) if where == "mirrored" else None,
        jit_compile=where == "xla",
        run_eagerly=where == "eager",
    )
    fit(parts)
    # The weights are in float64; Keras' losses are in float32, and so are Muon's products.
    assert_same_weights(parts, whole, rtol=1e-5, atol=1e-6)
    assert parts.optimizer.iterations.numpy() == whole.optimizer.iterations.numpy() == RAMP.total_steps(SIZE) == 10


@pytest.mark.parametrize(
    "make_schedule, message",
    [
        (lambda: AccumulationSchedule([], []), "expected one number of micro-batches for each stage"),
        (lambda: AccumulationSchedule([0], [3]), r"micro_batches\[0\]=0 is out of range"),
        (lambda: RAMP.accumulation(SIZE, 6), "micro_batch_size=6 does not divide the ramp's first batch, 8; .* 2 or 8"),
        (lambda: RAMP.accumulation(16, MICRO), "the ramp grows to a batch of 32"),
        (
            lambda: keras3.LAMB(accumulation_steps=RAMP),
            r"a whole number of micro-batches of 1 or more, or BatchRamp.accumulation\(...\)",
        ),
        (
            lambda: registry.get("adamw", accumulation_steps=SCHEDULE),
            r"takes no argument 'accumulation_steps'. LARS, LAMB, Muon, Shampoo and tfbigbatch.AdamW",
        ),
    ],
)
def test_wrong_input(make_schedule, message):
    with pytest.raises(ValueError, match=message):
        make_schedule()
