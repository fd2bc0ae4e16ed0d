"""Batch ramps: stages, learning rates, errors."""

import math

import numpy as np
import pytest

from tests.helpers.keras_versions import both_versions
from tfbigbatch import BatchRamp, Recipe
from tfbigbatch.scaling.batch_ramp import MOST_STAGES

SIZE = 25_000
RECIPE = Recipe(128, 0.004, 2.0, epochs=20, decay="linear")


def sizes_and_epochs(ramp):
    return [(stage.batch_size, stage.first_example / SIZE) for stage in ramp.stages(SIZE)]


@pytest.mark.parametrize(
    "equal, begins",
    [("examples", [0, 2.5, 5, 7.5, 10]), ("steps", [0, 10 / 15, 30 / 15, 70 / 15, 10])],
)
def test_doubling(equal, begins):
    ramp = BatchRamp.doubling(RECIPE, 2048, over="10 epochs", equal=equal)
    found = sizes_and_epochs(ramp)
    assert [size for size, _ in found] == [128, 256, 512, 1024, 2048]
    assert [epoch for _, epoch in found] == pytest.approx(begins, abs=0.5 * 2048 / SIZE)


@pytest.mark.parametrize("rule", ["sqrt", "linear", "none"])
def test_the_stages_are_all_examples_of_the_run_in_whole_batches(rule):
    for ramp in (
        BatchRamp.doubling(RECIPE, 2048, over="7 epochs", factor=4, rule=rule),
        BatchRamp.seesaw(RECIPE, 2048, dataset_size=SIZE, rule=rule),
        BatchRamp(RECIPE, [("12_345 examples", 384), ("900 steps", 640)], rule),
    ):
        seen = step = 0
        for stage in ramp.stages(SIZE):
            assert (stage.first_example, stage.first_step) == (seen, step)
            seen += stage.steps * stage.batch_size
            step += stage.steps
        assert abs(seen - 20 * SIZE) <= stage.batch_size / 2
        assert ramp.total_steps(SIZE) == step


def numpy_rate(ramp, step, recipe=RECIPE):
    """The learning rate by examples, of a linear warm-up and a linear decay."""
    stage = next(each for each in ramp.stages(SIZE) if step < each.last_step)
    examples = stage.first_example + (step - stage.first_step) * stage.batch_size
    small, warmup = examples / recipe.batch_size, recipe.warmup_steps(SIZE)
    total = recipe.total_steps(SIZE)
    rate = small / warmup if small < warmup else max(0.0, 1 - (small - warmup) / (total - warmup))
    k = stage.batch_size / recipe.batch_size
    return recipe.learning_rate * rate * {"sqrt": math.sqrt(k), "linear": k, "none": 1.0}[ramp.rule]


@both_versions
@pytest.mark.parametrize("rule", ["sqrt", "linear", "none"])
def test_the_learning_rate_of_every_step(keras_version, rule):
    ramp = BatchRamp.doubling(RECIPE, 1024, over="9 epochs", rule=rule)
    schedule = ramp.schedule(SIZE, keras=keras_version)
    steps = list(range(0, ramp.total_steps(SIZE), 41))
    edges = [step for stage in ramp.stages(SIZE) for step in (stage.first_step, stage.last_step - 1)]
    found = [float(schedule(step)) for step in (*steps, *edges)]
    np.testing.assert_allclose(found, [numpy_rate(ramp, step) for step in (*steps, *edges)], rtol=2e-5, atol=1e-9)
    again = type(schedule).from_config(schedule.get_config())
    assert float(again(edges[3])) == float(schedule(edges[3]))


@pytest.mark.parametrize("decay", ["linear", "cosine", {"name": "polynomial", "power": 2.0}])
@pytest.mark.parametrize("rule, between", [("sqrt", math.sqrt(0.5)), ("linear", 1.0), ("none", 0.5)])
def test_seesaw_cuts_and_grows_where_the_decay_has_halved(decay, rule, between):
    recipe = Recipe(128, 0.004, 2.0, epochs=20, decay=decay)
    ramp = BatchRamp.seesaw(recipe, 1024, dataset_size=SIZE, rule=rule)
    schedule, own = ramp.schedule(SIZE, keras="tf_keras"), recipe.schedule(SIZE, keras="tf_keras")
    stages = ramp.stages(SIZE)
    peaks = [float(schedule(stage.first_step)) for stage in stages[1:]]
    assert peaks == pytest.approx([0.004 * between ** (1 + index) for index in range(3)], rel=1e-5)
    for index, stage in enumerate(stages[1:], 1):
        # Constant within a stage, and at the point where the recipe's own has fallen as far.
        assert float(schedule(stage.last_step - 1)) <= float(schedule(stage.first_step)) * (1 + 1e-6)
        assert float(own(stage.first_example / 128)) == pytest.approx(0.004 * 0.5**index, rel=0.02)
    assert ramp.total_steps(SIZE) < recipe.total_steps(SIZE)


def test_seesaw_of_step_decay_by_the_linear_rule_is_growth_in_place_of_decay():
    boundaries = ("8 epochs", "14 epochs")
    recipe = Recipe(128, 0.1, epochs=20, decay={"name": "multi_step", "factor": 0.2, "boundaries": boundaries})
    ramp = BatchRamp.seesaw(recipe, 128 * 25, dataset_size=SIZE, cut=5, rule="linear")
    assert [epoch for _, epoch in sizes_and_epochs(ramp)] == pytest.approx([0, 8, 14], abs=3200 / SIZE)
    schedule = ramp.schedule(SIZE, keras="tf_keras")
    assert {round(float(schedule(step)), 6) for step in range(0, ramp.total_steps(SIZE), 31)} == {0.1}


def test_following_measurements_never_shrinks_the_batch():
    measured = [("0 epochs", 90.0), ("2 epochs", 700.0), ("5 epochs", 400.0), ("9 epochs", 3000.0)]
    assert sizes_and_epochs(BatchRamp.following(RECIPE, measured)) == [
        (128, 0),
        (512, pytest.approx(2, abs=0.02)),
        (2048, pytest.approx(9, abs=0.05)),
    ]
    assert BatchRamp.following(RECIPE, measured, most=1000).batch_sizes == [128, 512]
    assert BatchRamp.following(RECIPE, [("2 epochs", math.inf)], most=1000).batch_sizes == [128, 512]
    assert BatchRamp.following(RECIPE, [("1 epochs", 10.0)]).stages(SIZE)[0].steps == RECIPE.total_steps(SIZE)


def test_streams_grow_with_an_epoch():
    ramp = BatchRamp(Recipe(20, 0.1, epochs=4), [("0.9 epochs", 80), ("2.1 epochs", 640)])

    def examples(batch_size):  # As streams of windows of 35 of 929,588 predictions.
        return math.ceil(math.ceil(929_588 / batch_size) / 35) * batch_size

    stages = ramp.stages_of_epochs(examples)
    assert [stage.batch_size for stage in stages] == [20, 80, 640]
    assert [stage.steps for stage in stages] == [examples(20) // 20, examples(80) // 80, 2 * examples(640) // 640]
    assert stages[2].start == 2 * examples(20) // 20
    # The schedule of the first batch ends with the run.
    assert stages[2].start + stages[2].pace * stages[2].steps == pytest.approx(4 * examples(20) // 20)
    for growth in ([("0.3 epochs", 80)], [("3.8 epochs", 80)]):
        with pytest.raises(ValueError, match="can begin with an epoch only"):
            BatchRamp(Recipe(20, 0.1, epochs=4), growth).stages_of_epochs(examples)


def test_the_summary():
    ramp = BatchRamp.doubling(RECIPE, 256, over="10 epochs")
    assert ramp.lines(SIZE) == [
        "batch 128 from epoch 0: 1,953 steps, learning rate x1",
        "batch 256 from epoch 9.999: 977 steps, learning rate x1.414",
        "2,930 steps in all, 75.0% of 3,906 at batch 128",
    ]


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: BatchRamp(RECIPE, [("30 epochs", 256)]).stages(SIZE), "longer than the run: batch 256 begins after"),
        (
            lambda: BatchRamp(RECIPE, [("2 epochs", 300)]),
            "batch 300 after 128; expected a larger one that is a multiple",
        ),
        (lambda: BatchRamp(RECIPE, [("2", 256)]), "does not say how long"),
        (lambda: BatchRamp(RECIPE, ["2 epochs"]), "expected .duration, batch size."),
        (lambda: BatchRamp(RECIPE, [("2 epochs", 256), ("2 epochs", 512)]).stages(SIZE), "batch 256 lasts no step"),
        (lambda: BatchRamp(RECIPE, [("2 epochs", 256)], "legw"), "rule='legw' is unknown"),
        (lambda: BatchRamp(Recipe(32, 0.1), [("2 epochs", 256)]), "the recipe has no length"),
        (lambda: BatchRamp("lamb", []), "expected a tfbigbatch.Recipe"),
        (
            lambda: BatchRamp.doubling(RECIPE, 2000, over="2 epochs"),
            "to=2000 is no larger multiple of the first batch, 128; expected such as 1920 or 2048",
        ),
        (lambda: BatchRamp.doubling(RECIPE, 256, over="2 epochs", factor=1.5), "factor"),
        (lambda: BatchRamp.doubling(RECIPE, 256, over="2 epochs", equal="epochs"), "equal='epochs' is unknown"),
        (lambda: BatchRamp.doubling(RECIPE, 2**15, over="9 epochs").stages(SIZE), "there are 25,000 training examples"),
        (lambda: BatchRamp.doubling(Recipe(1, 1, epochs=3), 2**MOST_STAGES, over="2 epochs"), "13 batch sizes"),
        (lambda: BatchRamp.seesaw(Recipe(32, 1.0, epochs=3), 64, dataset_size=900), "is cut 0 times by 2"),
        (lambda: BatchRamp.following(RECIPE, [("2 epochs", math.inf)]), "measured"),
        (lambda: BatchRamp.following(RECIPE, [("0 epochs", 300.0)]), "allows 256 from the run's first step on"),
        (lambda: BatchRamp.seesaw(Recipe(32, 0.0, epochs=3), 64, dataset_size=900), "learning rate is 0"),
    ],
)
def test_what_cannot_be_used(make, message):
    with pytest.raises(ValueError, match=message):
        make()
