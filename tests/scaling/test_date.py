"""DATE in the `fit` of both Kerases, between the trainer's steps, and its rules."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tfbigbatch
from tests.conftest import mirrored
from tests.helpers.keras_versions import KERAS, both_versions, make
from tfbigbatch import keras2, scaling
from tfbigbatch.optimizers import keras3
from tfbigbatch.scaling.date import best_loss, loss_blew_up, noise_gain, rate_growth
from tfbigbatch.schedules.keras3 import AdjustableWarmup
from tfbigbatch.training.step import TrainingSteps

ADJUSTABLE = {"tf_keras": keras2.AdjustableWarmup, "keras3": AdjustableWarmup}
WARMUP, BATCH, FEATURES = 40, 16, 4
STEPS = 3 * WARMUP


def examples(count=STEPS * BATCH, noise=0.1):
    random = np.random.RandomState(3)
    x = random.normal(size=(count, FEATURES)).astype("float32")
    y = x @ np.arange(1, FEATURES + 1, dtype="float32")[:, None] + noise * random.normal(size=(count, 1))
    return x, y.astype("float32")


def regression(peak, keras_version="keras3", *, optimizer=None, strategy=None, **compile_arguments):
    """Linear regression: plain descent on its quadratic is stable below a rate of about 1."""
    keras = KERAS[keras_version]
    keras.utils.set_random_seed(0)
    with (strategy or tf.distribute.get_strategy()).scope():
        model = keras.Sequential([keras.layers.Input((FEATURES,)), keras.layers.Dense(1, name="dense")])
        schedule = ADJUSTABLE[keras_version](peak, WARMUP)
        rule = optimizer(schedule) if optimizer else keras.optimizers.SGD(schedule)
        model.compile(rule, "mse", **{"jit_compile": False, **compile_arguments})
    return model


def callback(**options):
    x, y = examples(64)
    return scaling.DATE(**{"probe": (x, y), "micro_batches": 4, "verbose": False, **options})


def train(model, callbacks=(), first=0, last=STEPS, epochs=1):
    x, y = examples()
    part = slice(first * BATCH, last * BATCH)
    model.fit(x[part], y[part], batch_size=BATCH, shuffle=False, verbose=0, callbacks=list(callbacks), epochs=epochs)
    return model


@both_versions
@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_blow_up_is_stopped_where_the_plan_diverges(keras_version, jit_compile):
    diverged = train(regression(4.0, keras_version))
    assert not np.isfinite(diverged.get_weights()[0]).all() or np.abs(diverged.get_weights()[0]).max() > 1e6
    date = callback()
    saved = train(regression(4.0, keras_version, jit_compile=jit_compile), [date])
    np.testing.assert_allclose(saved.get_weights()[0].ravel(), np.arange(1, FEATURES + 1), atol=0.2)
    assert date.decisions and all("loss on the probe" in decision["reason"] for decision in date.decisions)
    first = date.decisions[0]
    assert first["step"] % (WARMUP // 10) == 0 and first["step"] < WARMUP
    # Half of the rate that it blew up at, and never up again.
    assert first["gain"] == pytest.approx(0.5 * first["step"] / WARMUP)
    gains = [decision["gain"] for decision in date.decisions]
    assert gains == sorted(gains, reverse=True) and date.state.value("ended")
    assert float(saved.optimizer._learning_rate.gain) == pytest.approx(gains[-1])


@pytest.mark.parametrize("optimizer, rate", [(keras.optimizers.SGD, 0.1), (keras3.LAMB, 0.01)])
def test_a_stable_run_is_left_alone_bit_by_bit(optimizer, rate):
    recipe = tfbigbatch.Recipe(BATCH, rate, 1.0)
    date = callback(recipe=recipe, batch_size=BATCH)
    with_date = train(regression(rate, optimizer=optimizer), [date])
    alone = train(regression(rate, optimizer=optimizer))
    np.testing.assert_equal(with_date.get_weights(), alone.get_weights())
    # Both noise decisions are told, and change nothing at the tuned batch.
    assert [(decision["step"], decision["gain"]) for decision in date.decisions] == [(20, 1.0), (40, 1.0)]
    assert "the peak stays at 1 of the plan" in date.decisions[0]["reason"]


def test_little_noise_lowers_the_peak_to_what_it_allows():
    date = callback(recipe=tfbigbatch.Recipe(1, 0.1), batch_size=BATCH)
    model = train(regression(0.4), [date])
    half = date.decisions[0]
    allowed = 0.1 * (1 + half["noise_scale"]) / (1 + half["noise_scale"] / BATCH)
    assert half["step"] == WARMUP // 2 and half["gain"] == pytest.approx(min(1.0, allowed / 0.4), rel=1e-5)
    quiet = callback(recipe=tfbigbatch.Recipe(1, 1e-3), batch_size=BATCH)
    model = train(regression(0.4), [quiet])
    assert float(model.optimizer._learning_rate(STEPS)) == pytest.approx(0.4 * quiet.decisions[-1]["gain"])
    assert quiet.decisions[-1]["gain"] <= 16 * 1e-3 / 0.4


def test_the_peak_rises_only_where_it_is_allowed_to():
    recipe = tfbigbatch.Recipe(1, 0.1)
    options = {"recipe": recipe, "batch_size": BATCH}
    raised = callback(highest_gain=1.5, **options)
    model = train(regression(0.02), [raised])
    assert [decision["gain"] for decision in raised.decisions] == [1.5, 1.5]
    assert float(model.optimizer._learning_rate(50)) == pytest.approx(0.02 * 50 / WARMUP)
    kept = callback(**options)
    train(regression(0.02), [kept])
    assert {decision["gain"] for decision in kept.decisions} == {1.0}


@both_versions
@pytest.mark.parametrize("stop", [14, 16, 37])
def test_a_run_resumed_in_the_warm_up_decides_and_ends_the_same(keras_version, stop, tmp_path):
    options = {"recipe": tfbigbatch.Recipe(1, 1e-2), "batch_size": BATCH}

    def parts():
        model, date = regression(4.0, keras_version), callback(**options)
        model.optimizer.build(model.trainable_variables)
        return model, date, tf.train.Checkpoint(model=model, optimizer=model.optimizer, date=date.state)

    whole, date, _ = parts()
    train(whole, [date])
    before, early, checkpoint = parts()
    train(before, [early], last=stop)
    path = checkpoint.save(str(tmp_path / "stopped"))
    after, late, checkpoint = parts()
    checkpoint.restore(path).assert_consumed()
    train(after, [late], first=stop)
    np.testing.assert_equal(after.get_weights(), whole.get_weights())
    assert early.decisions + late.decisions == date.decisions and len(date.decisions) > 1
    np.testing.assert_equal(*([variable.numpy() for variable in each.state.variables] for each in (late, date)))


@pytest.mark.parametrize("replicas", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_the_decisions_do_not_depend_on_the_replicas(replicas):
    options = {"recipe": tfbigbatch.Recipe(1, 1e-2), "batch_size": BATCH}
    alone, many = callback(**options), callback(**options)
    train(regression(4.0), [alone])
    train(regression(4.0, strategy=mirrored(replicas)), [many])
    assert len(many.decisions) == len(alone.decisions) > 0
    for one, other in zip(many.decisions, alone.decisions):
        assert one["step"] == other["step"] and one["gain"] == pytest.approx(other["gain"], rel=1e-3)


def test_a_layer_that_is_replaced_in_one_update_is_a_blow_up():
    # LAMB changes a layer by exactly the rate.
    date = callback(largest_update=0.1, blow_up=1e9)
    train(regression(0.2, optimizer=lambda schedule: keras3.LAMB(schedule, layer_statistics=True)), [date])
    first = date.decisions[0]
    assert first["step"] == 24 and first["largest_update"] == pytest.approx(first["rate"], rel=1e-4)
    assert "a layer changed by 0.115 of its norm" in first["reason"] and first["gain"] == pytest.approx(0.3)
    assert len(date.decisions) == 1


@both_versions
def test_looks_follow_the_updates_of_several_steps_an_execution_and_of_an_accumulating_optimizer(keras_version):
    steps = []
    date = callback(measure_every=6, log=lambda step, _: steps.append(step))
    train(regression(0.1, keras_version, steps_per_execution=4), [date])
    assert steps == [8, 12, 20, 24, 32, 36, 44, 48, 56, 60, 68, 72, 80]
    # By itself at the tenths of the warm-up, until twice its length.
    seen = []
    date = callback(log=lambda *look: seen.append(look))
    accumulating = regression(
        0.1,
        keras_version,
        optimizer=lambda schedule: make(keras_version, "LAMB", learning_rate=schedule, accumulation_steps=3),
    )
    train(accumulating, [date], epochs=2)
    assert [step for step, _ in seen] == list(range(4, 81, 4))
    assert set(seen[0][1]) == {"date/rate", "date/loss", "date/noise_scale", "date/gain"}
    assert seen[0][1]["date/rate"] == pytest.approx(0.1 * 3 / 40)


def test_between_the_trainers_steps_with_accumulation_and_loss_scaling():
    scaled = lambda schedule: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(schedule), initial_scale=8.0)
    model, date = regression(4.0, optimizer=scaled), callback()
    steps = TrainingSteps(model, strategy=model.distribute_strategy, accumulation_steps=2)
    batches, step = iter(tf.data.Dataset.from_tensor_slices(examples()).batch(BATCH, drop_remainder=True)), 0
    date.begin(model)
    while step < STEPS:
        n = int(min(date.steps_left, STEPS - step))
        steps(batches, step, n)
        date.after_steps(n)
        step += n
    assert date.decisions and date.decisions[0]["step"] % 4 == 0
    np.testing.assert_allclose(model.get_weights()[0].ravel(), np.arange(1, FEATURES + 1), atol=0.2)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"blow_up": 1.0}, "blow_up=1.0 is out of range; expected a factor above 1"),
        ({"highest_gain": 0.9}, "highest_gain=0.9 is out of range"),
        ({"recipe": tfbigbatch.Recipe(1, 0.1)}, "batch_size=None; expected the tuned tfbigbatch.Recipe and"),
        ({"recipe": 0.1, "batch_size": 16}, "recipe=0.1, batch_size=16; expected the tuned"),
        ({"micro_batches": 1}, "DATE: micro_batches=1 is out of range; expected a whole number of 2 or more"),
        ({"probe": None}, "probe=None is not a sequence"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        callback(**options)


def plan(peak, keras_version="keras3", **more):
    """A schedule as a Recipe gives it, not adjustable; of a constant peak, as that of `regression`."""
    recipe = tfbigbatch.Recipe(BATCH, peak, warmup_epochs=1.0, epochs=3.0, **more)
    return recipe.schedule(WARMUP * BATCH, keras=keras_version)


@both_versions
def test_a_recipes_schedule_is_taken_as_it_is(keras_version):
    sgd = KERAS[keras_version].optimizers.SGD
    # A step that was traced before holds the schedule that was not adjustable.
    model = train(regression(0.4, keras_version, optimizer=lambda _: sgd(plan(0.4, keras_version))), last=4)
    weights = model.get_weights()
    stopped = KERAS[keras_version].callbacks.LambdaCallback(
        on_train_begin=lambda logs: model.optimizer._learning_rate.gain.assign(1e-30)
    )
    date = callback()
    train(model, [date, stopped], first=4, last=8)
    assert isinstance(model.optimizer._learning_rate, ADJUSTABLE[keras_version])
    assert date.state.value("last_look") == 8
    np.testing.assert_equal(weights, model.get_weights())


@pytest.mark.slow
def test_a_recipes_schedule_under_a_strategy_within_adasum():
    date, adasum = callback(), lambda _: keras3.Adasum(keras.optimizers.SGD(plan(4.0)))
    model = train(regression(4.0, optimizer=adasum, strategy=mirrored(2)), [date])
    assert date.decisions and isinstance(model.optimizer.inner_optimizer._learning_rate, ADJUSTABLE["keras3"])


@both_versions
def test_what_cannot_be_adjusted_is_refused_with_what_to_do(keras_version):
    sgd, schedules_of = KERAS[keras_version].optimizers.SGD, KERAS[keras_version].optimizers.schedules
    refused = [
        (sgd(plan(0.1, keras_version, warmup_shape="exponential")), "use warmup_shape='linear'"),
        (sgd(plan(0.0, keras_version)), "peak=0: expected both above 0"),
        (sgd(ADJUSTABLE[keras_version](0.1, 0)), "the schedule has warmup_steps=0 and peak=0.1"),
        (sgd(schedules_of.CosineDecay(0.1, 10)), "it is a CosineDecay"),
        (sgd(0.1), r"the learning rate of this SGD: it is a .*Variable. .*recipe.schedule\("),
    ]
    if keras_version == "keras3":  # Its schedule counts micro-batches, its `iterations` steps.
        accumulating = sgd(plan(0.1), gradient_accumulation_steps=2)
        refused.append((accumulating, "gradient_accumulation_steps=2, Keras' own, the schedule counts micro-batches"))
    else:
        refused.append((tf_keras.optimizers.legacy.SGD(plan(0.1, "tf_keras")), "of this SGD: it is a NoneType"))
    for optimizer, message in refused:
        model = regression(0.1, keras_version, optimizer=lambda _, made=optimizer: made)
        with pytest.raises(ValueError, match=message):
            train(model, [callback()], last=1)
    outside = ADJUSTABLE[keras_version](0.1, WARMUP)
    model = regression(0.1, keras_version, optimizer=lambda _: sgd(outside), strategy=mirrored(2))
    with pytest.raises(ValueError, match="was made outside the model's strategy"):
        train(model, [callback()])
    with pytest.raises(ValueError, match="measure_every=81 is past the steps that are watched.* at most 80"):
        train(regression(0.1, keras_version), [callback(measure_every=81)], last=1)


def test_one_callback_is_for_one_run():
    date = callback()
    model = train(regression(0.1), [date], last=8)
    with pytest.raises(ValueError, match="the state of another run, at step 8; the optimizer is at step 0. Make a new"):
        train(regression(0.1), [date], last=8)
    train(model, [date], first=8, last=16)
    assert date.state.value("last_look") == 16


def test_another_backend_of_keras_3_is_refused(monkeypatch):
    model = regression(0.1)
    monkeypatch.setattr(keras.config, "backend", lambda: "jax")
    with pytest.raises(ValueError, match="DATE needs TensorFlow, and Keras 3 runs on jax here: set KERAS_BACKEND"):
        callback().set_model(model)


def test_much_noise_is_the_linear_rule_and_none_keeps_the_rate():
    assert rate_growth(math.inf, tuned_batch=64, batch=1024) == 16.0
    assert rate_growth(1e12, tuned_batch=64, batch=1024) == pytest.approx(16.0)
    assert rate_growth(0.0, tuned_batch=64, batch=1024) == 1.0
    assert rate_growth(1024.0, tuned_batch=64, batch=1024) == pytest.approx((1 + 16) / 2)


@pytest.mark.parametrize(
    "noise_scale, batch_size, peak, highest, gain",
    [
        # LEGW's peak is kept from the geometric mean of the batches on.
        (256.0, 1024, 0.4, 1.0, 1.0),
        (1.1 * 256, 1024, 0.4, 1.0, 1.0),
        (0.9 * 256, 1024, 0.4, 1.0, 0.25 * (1 + 0.9 * 4) / (1 + 0.9 / 4)),
        (0.0, 1024, 0.4, 1.0, 0.25),
        (math.inf, 1024, 0.4, 1.5, 1.5),
        (64.0, 64, 0.1, 1.0, 1.0),
    ],
)
def test_the_gain_by_noise(noise_scale, batch_size, peak, highest, gain):
    tuned = tfbigbatch.Recipe(batch_size=64, learning_rate=0.1, warmup_epochs=0.5)
    found = noise_gain(noise_scale, tuned, batch_size=batch_size, peak=peak, highest=highest)
    assert found == pytest.approx(gain) and found <= highest


@pytest.mark.parametrize(
    "loss, best, blown",
    [
        (1.49, 1.0, False),
        (1.51, 1.0, True),
        (math.nan, 1.0, True),
        (math.inf, 1.0, True),
        (0.01, 1e-6, False),
        (0.2, 1e-6, True),
        (5.0, math.inf, False),
        (math.nan, math.inf, True),
        (math.nan, math.nan, False),
        (5.0, math.nan, False),
    ],
)
def test_the_loss(loss, best, blown):
    assert loss_blew_up(loss, best=best, first=10.0, factor=1.5) is blown


def test_the_best_begins_anew_after_a_blow_up_and_after_a_loss_that_was_lost():
    assert best_loss(3.0, best=math.inf, blew_up=False) == 3.0
    assert best_loss(3.0, best=2.0, blew_up=False) == 2.0
    assert best_loss(3.0, best=2.0, blew_up=True) == 3.0
    assert math.isnan(best_loss(math.inf, best=2.0, blew_up=True))
    assert best_loss(3.0, best=math.nan, blew_up=False) == 3.0
