import numpy as np
import pytest

from tests.helpers.keras_versions import KERAS, both_versions
from tfbigbatch.scaling.recipe import Recipe

BASE = Recipe(batch_size=32, learning_rate=0.1, warmup_epochs=0.3125)


@pytest.mark.parametrize(
    "rule, learning_rate, warmup_epochs",
    [("none", 0.1, 0.3125), ("linear", 1.6, 0.3125), ("sqrt", 0.4, 0.3125), ("legw", 0.4, 5.0)],
)
def test_each_rule_at_sixteen_times_the_batch(rule, learning_rate, warmup_epochs):
    scaled = BASE.at(512, rule)
    assert scaled.batch_size == 512
    assert scaled.learning_rate == pytest.approx(learning_rate)
    assert scaled.warmup_epochs == pytest.approx(warmup_epochs)


def test_legw_reproduces_its_authors_resnet_recipe():
    base = Recipe(batch_size=512, learning_rate=2**2, warmup_epochs=10 / 64)
    for batch_size, rate, warmup in ((1024, 2**2.5, 10 / 32), (4096, 2**3.5, 10 / 8), (8192, 2**4, 10 / 4)):
        scaled = base.at(batch_size, "legw")
        assert (scaled.learning_rate, scaled.warmup_epochs) == pytest.approx((rate, warmup))


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"batch_size": 32.5}, "Recipe: batch_size=32.5 is not a whole number"),
        ({"batch_size": 0}, "Recipe: batch_size=0 is out of range; expected a whole number of 1 or more"),
        ({"warmup_epochs": -1}, "Recipe: warmup_epochs=-1 is out of range; expected a finite number of 0 or more"),
        ({"learning_rate": float("nan")}, "Recipe: learning_rate=nan is out of range; expected a finite number"),
        ({"optimizer": {"beta_2": 1.0}}, "Recipe: optimizer: beta_2=1.0 is out of range"),
        ({"optimizer": {"weight_decay": -1}}, "Recipe: optimizer: weight_decay=-1 is out of range"),
        ({"optimizer": {"learning_rate": 0.1}}, "optimizer has a learning_rate: that of a recipe is its own field"),
        ({"optimizer": ("beta_2", 0.9)}, "Recipe: optimizer=.* is not a dictionary of an optimizer's arguments"),
        ({"decay": "cosin"}, "decay='cosin' is unknown. Did you mean 'cosine'?"),
        ({"decay": {"name": "exponential", "factor": 0.5, "every": 3}}, "every=3 does not say how long"),
        ({"decay": {"name": "exponential", "factor": 0.5, "every": "0 steps"}}, "every=0 is out of range"),
        ({"decay": {"name": "multi_step", "factor": 0.1}}, "decay 'multi_step' needs boundaries"),
        (
            {"decay": {"name": "multi_step", "factor": 0.1, "boundaries": "3 steps"}},
            "boundaries='3 steps' is not a seq",
        ),
        ({"decay": {"name": "cosine", "factor": 0.1}}, "'cosine' takes no field 'factor'; its fields: end, start"),
        ({"warmup_shape": "square"}, "Recipe: warmup_shape='square' is unknown"),
    ],
)
def test_a_recipe_is_checked_where_it_is_made(fields, message):
    with pytest.raises(ValueError, match=message):
        Recipe(**{"batch_size": 32, "learning_rate": 0.1, **fields})


def test_what_a_recipe_is_asked_is_checked():
    recipe = Recipe(32, 0.1, 1.0, epochs=2)
    for size in (0, -1, 32.5, "64", None, True, float("nan")):
        for ask in (recipe.at, recipe.warmup_steps, recipe.total_steps, recipe.schedule, recipe.lines):
            with pytest.raises(ValueError, match="_size=.* expected a whole number of 1 or more"):
                ask(size)
    with pytest.raises(ValueError, match="accumulation_steps=1.5 is not a whole number"):
        recipe.at(64, accumulation_steps=1.5)
    with pytest.raises(ValueError, match="rule='lgew' is unknown. Did you mean 'legw'"):
        recipe.at(64, "lgew")
    with pytest.raises(ValueError, match="scaled=64 is not a Recipe"):
        recipe.arithmetic(64)


def test_numbers_of_numpy_are_taken():
    recipe = Recipe(np.int64(32), np.float32(0.5), np.float64(1), epochs=np.int32(2)).at(np.int32(64), "linear")
    assert recipe == Recipe(64, 1.0, 1.0, epochs=2) and type(recipe.batch_size) is int
    assert recipe.total_steps(np.int64(640)) == 20


def test_accumulation_is_part_of_the_global_batch():
    assert BASE.at(64, "legw", accumulation_steps=8) == BASE.at(512, "legw")


@both_versions
def test_the_schedule_of_a_carried_recipe(keras_version):
    base = Recipe(128, 0.1, warmup_epochs=0.0390625, epochs=25, decay="linear")
    scaled = base.at(8192, "legw")
    schedule = scaled.schedule(60_000, keras=keras_version)
    assert isinstance(schedule, KERAS[keras_version].optimizers.schedules.LearningRateSchedule)
    assert (scaled.warmup_steps(60_000), scaled.total_steps(60_000)) == (18, 183)
    assert [float(schedule(step)) for step in (0, 9, 18, 183)] == pytest.approx([0.0, 0.4, 0.8, 0.0])
    assert scaled.lines(60_000) == [
        "batch      8,192: 7.324 steps per epoch of 60,000 examples",
        "peak       learning rate 0.8",
        "warm-up    2.5 epochs = 18 steps",
        "length     25 epochs = 183 steps",
        "decay      linear",
    ]


def test_a_decay_with_durations_is_carried_in_epochs():
    decay = {"name": "multi_step", "factor": 0.1, "boundaries": ("2 epochs", "3 epochs")}
    for batch_size, first, second in ((10, 200, 300), (20, 100, 150)):
        schedule = Recipe(10, 1.0, epochs=4, decay=decay).at(batch_size, "none").schedule(1000, keras="tf_keras")
        steps = (first - 1, first, second - 1, second)
        assert [float(schedule(step)) for step in steps] == pytest.approx([1.0, 0.1, 0.1, 0.01])


def test_a_recipe_without_a_length_has_a_schedule_where_none_is_needed():
    assert float(Recipe(10, 1.0, warmup_epochs=1).schedule(1000, keras="tf_keras")(50)) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="no length: set its epochs"):
        Recipe(10, 1.0, decay="cosine").schedule(1000, keras="tf_keras")


def test_mlperfs_gnmt_is_a_recipe():
    recipe = Recipe(1024, 2e-3, warmup_epochs=0.2, epochs=6, decay={"name": "mlperf_gnmt"}, warmup_shape="exponential")
    schedule = recipe.schedule(102_400, keras="tf_keras")
    steps = (0, 20, 399, 400, 450, 500, 550, 599)
    expected = [2e-5, *([2e-3] * 2), 1e-3, 5e-4, 2.5e-4, 1.25e-4, 1.25e-4]
    np.testing.assert_allclose([float(schedule(step)) for step in steps], expected, rtol=1e-5)
    assert recipe.at(4096).warmup_shape == "exponential"


ADAM = {"beta_1": 0.9, "beta_2": 0.999, "weight_decay": 0.01, "epsilon": 1e-8, "nesterov": True}


@pytest.mark.parametrize(
    "scaled, changed",
    [
        ({}, {}),
        ({"moments": "half_life"}, {"beta_2": 0.999**16}),
        ({"moments": "half_life_all"}, {"beta_1": 0.9**16, "beta_2": 0.999**16}),
        ({"weight_decay": "kept"}, {"weight_decay": 0.04}),
        ({"rule": "linear", "weight_decay": "kept"}, {}),
        ({"rule": "none", "weight_decay": "kept"}, {"weight_decay": 0.16}),
    ],
)
def test_the_optimizers_arguments_are_scaled_where_asked(scaled, changed):
    base = Recipe(32, 0.1, optimizer=ADAM)
    found = base.at(512, **{"rule": "sqrt", **scaled})
    assert found.optimizer == pytest.approx({**ADAM, **changed}, rel=1e-14)
    assert base.optimizer == ADAM
    # Back again, and nothing at the same batch.
    assert found.at(32, **{"rule": "sqrt", **scaled}).optimizer == pytest.approx(ADAM, rel=1e-13)
    assert base.at(32, **{"rule": "sqrt", **scaled}) == base


def test_what_is_scaled_of_the_optimizer_is_said():
    base = Recipe(256, 0.1, 0.15625, epochs=90, optimizer={"beta_2": 0.999, "weight_decay": 0.01})
    scaled = base.at(4096, moments="half_life", weight_decay="kept")
    assert base.arithmetic(scaled) == (
        "x16 batch: learning rate 0.1 -> 0.4 (x4), warm-up 0.1562 -> 2.5 epochs, "
        "beta_2 0.999 -> 0.9841, weight_decay 0.01 -> 0.04"
    )
    assert base.arithmetic(base.at(4096)) == "x16 batch: learning rate 0.1 -> 0.4 (x4), warm-up 0.1562 -> 2.5 epochs"
    assert scaled.lines(10_000)[-1] == "optimizer  beta_2 0.9841, weight_decay 0.04"
    vectors = Recipe(32, 0.1, optimizer={"vectors": {"step": "lamb", "beta_2": 0.99}})
    wider = vectors.at(512, moments="half_life")
    assert wider.optimizer == {"vectors": {"step": "lamb", "beta_2": pytest.approx(0.99**16)}}
    assert vectors.changes(wider)[1:] == ["vectors.beta_2 0.99 -> 0.8515"]
    other = Recipe(256, 0.1, 0.15625, optimizer={"beta_2": 0.9999})
    assert base.changes(other)[1:] == [
        "beta_2 0.999 -> 0.9999",
        "weight_decay 0.01 -> None",
    ]


def test_what_cannot_be_scaled_is_refused():
    plain = Recipe(32, 0.1, optimizer={"momentum": 0.9, "beta_2": None, "weight_decay": None})
    with pytest.raises(
        ValueError, match="moments='half_life' scales beta_2, normuon_beta, vectors.beta_2; the recipe has none of them"
    ):
        plain.at(64, moments="half_life")
    assert plain.at(64, moments="half_life_all").optimizer["momentum"] == pytest.approx(0.81)
    with pytest.raises(ValueError, match="weight_decay='kept': the recipe has no weight_decay above 0"):
        plain.at(64, weight_decay="kept")
    with pytest.raises(ValueError, match="moments='halflife' is unknown. Did you mean 'half_life'"):
        plain.at(64, moments="halflife")
    with pytest.raises(ValueError, match="weight_decay='keep' is unknown"):
        plain.at(64, weight_decay="keep")
