import math

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.keras_versions import KERAS, both_versions
from tfbigbatch import schedules
from tfbigbatch.schedules.by_name import DECAYS
from tfbigbatch.schedules.classes import in_phases

# Each decay by a formula of its own, from the update t, for a peak of 0.4, 10 updates of warm-up and 110 in all.
PEAK, WARMUP, TOTAL = 0.4, 10, 110
EXPECTED = {
    "constant": ({}, lambda t: PEAK),
    "linear": ({"end": 0.1}, lambda t: 0.1 + 0.3 * (TOTAL - t) / 100),
    "polynomial": ({"power": 2.0, "end": 0.1}, lambda t: 0.1 + 0.3 * ((TOTAL - t) / 100) ** 2),
    "cosine": ({"end": 0.1}, lambda t: 0.1 + 0.3 * 0.5 * (1 + math.cos(math.pi * (t - WARMUP) / 100))),
    "exponential": (
        {"factor": 0.5, "every": 20, "start": 30, "staircase": True},
        lambda t: PEAK * 0.5 ** max(0, (t - 30) // 20),
    ),
    "multi_step": (
        {"factor": 0.1, "boundaries": (40, 80)},
        lambda t: PEAK * 0.1 ** ((t >= 40) + (t >= 80)),
    ),
    # int(0.667 * 110) is 73, and a quarter of the rest 9.
    "mlperf_gnmt": ({"remain": 0.667}, lambda t: PEAK * 0.5 ** ((t >= 73) + (t >= 82) + (t >= 91) + (t >= 100))),
    "mlperf_lars": ({}, lambda t: 1e-4 + (PEAK - 1e-4) * (1 - (t - WARMUP) / (TOTAL - WARMUP + 1)) ** 2),
}


def made(decay, keras_version="tf_keras", **more):
    return schedules.build(
        PEAK, warmup_steps=WARMUP, total_steps=TOTAL, decay=decay, keras=keras_version, **{**EXPECTED[decay][0], **more}
    )


def rates(schedule, steps):
    return [float(schedule(tf.constant(step, tf.int64))) for step in steps]


@both_versions
@pytest.mark.parametrize("decay", DECAYS)
def test_each_decay_follows_its_formula_after_the_warm_up(decay, keras_version):
    steps = [0, 1, 9, 10, 11, 29, 30, 39, 40, 49, 50, 72, 73, 79, 80, 91, 99, 100, 109, 110]
    expected = [PEAK * t / WARMUP if t < WARMUP else EXPECTED[decay][1](t) for t in steps]
    np.testing.assert_allclose(rates(made(decay, keras_version), steps), expected, rtol=2e-5, atol=1e-7)


@both_versions
@pytest.mark.parametrize("decay, shape", [*((decay, "linear") for decay in DECAYS), ("mlperf_gnmt", "exponential")])
def test_each_decay_serialises_with_its_warm_up(decay, shape, keras_version):
    keras_schedules = KERAS[keras_version].optimizers.schedules
    schedule = made(decay, keras_version, warmup_shape=shape)
    restored = keras_schedules.deserialize(keras_schedules.serialize(schedule))
    assert type(restored) is type(schedule)
    assert restored.get_config() == schedule.get_config()
    assert rates(restored, [3, 30, 90]) == rates(schedule, [3, 30, 90])


@pytest.mark.parametrize("decay", DECAYS)
def test_each_decay_compiles_under_xla_with_a_static_shape(decay):
    schedule = made(decay)
    compiled = tf.function(schedule, jit_compile=True, input_signature=[tf.TensorSpec((), tf.int64)])
    for step in (0, 5, 40, 110):
        assert float(compiled(tf.constant(step, tf.int64))) == pytest.approx(rates(schedule, [step])[0], rel=1e-5)


@both_versions
def test_an_optimizer_takes_the_rate_of_its_own_updates(keras_version):
    keras = KERAS[keras_version]
    optimizer = keras.optimizers.SGD(made("linear", keras_version))
    if keras_version == "tf_keras":
        variable = tf.Variable([0.0])
        step = lambda: optimizer.apply_gradients([(tf.constant([1.0]), variable)])
    else:
        variable = keras.Variable(np.zeros(1, "float32"))
        step = lambda: optimizer.apply([tf.constant([1.0])], [variable])
    for _ in range(20):
        step()
    assert float(tf.convert_to_tensor(variable)[0]) == pytest.approx(-sum(rates(made("linear"), range(20))), rel=1e-5)


@both_versions
def test_an_exponential_warm_up_is_that_of_mlperfs_gnmt(keras_version):
    schedule = made("mlperf_gnmt", keras_version, warmup_shape="exponential")
    # NVIDIA's: exp(log(0.01) / warm-up) to the updates that are left.
    expected = [PEAK * math.exp(math.log(0.01) / WARMUP) ** (WARMUP - t) for t in range(WARMUP + 1)]
    np.testing.assert_allclose(rates(schedule, range(WARMUP + 1)), expected, rtol=1e-5)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"decay": "linaer"}, "decay='linaer' is unknown. Did you mean 'linear'"),
        ({"warmup_steps": 20}, "warm-up of 20 steps is longer than the run of 10"),
        ({"decay": "multi_step", "factor": 0.1}, "decay 'multi_step' needs boundaries"),
        ({"decay": "exponential", "every": 3}, "decay 'exponential' needs factor"),
        ({"decay": "multi_step", "factor": 0.1, "boundaries": (6, 4)}, "expected them increasing"),
        ({"decay": "multi_step", "factor": 0.1, "boundaries": (2, 4), "warmup_steps": 2}, "lies inside the warm-up"),
        ({"decay": "cosine", "start": 11}, "the decay starts at step 11, past the run's end at 10"),
        ({"decay": "mlperf_gnmt", "warmup_steps": 6}, "first halving after the warm-up of 6"),
        ({"decay": "mlperf_gnmt", "remain": 1.1}, "remain=1.1 is out of range; expected a fraction of the run"),
        ({"warmup_shape": "square"}, "warmup_shape='square' is unknown. Known: exponential, linear"),
        ({"keras": "keras4"}, "keras='keras4' is unknown"),
        ({"peak": math.nan}, "peak=nan is out of range; expected a finite number of 0 or more"),
        ({"warmup_steps": -1}, "warmup_steps=-1 is out of range; expected a whole number of 0 or more"),
        ({"decay": "exponential", "factor": 0.5, "every": "3 steps"}, "every='3 steps' is not a number"),
        ({"decay": "multi_step", "factor": 0.1, "boundaries": (4, 5.5)}, r"boundaries\[1\]=5.5 is not a whole number"),
        ({"decay": "cosine", "power": 2.0}, "decay 'cosine' takes no field 'power'; its fields: end, start"),
    ],
)
def test_bad_schedules_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        schedules.build(**{"peak": 0.4, "warmup_steps": 0, "total_steps": 10, "keras": "tf_keras", **arguments})


def three(keras_version):
    parts = [
        schedules.build(0.4, warmup_steps=2, total_steps=6, decay="linear", keras=keras_version),
        schedules.build(0.1, warmup_steps=4, total_steps=5, keras=keras_version),
        schedules.build(1.0, warmup_steps=0, total_steps=10, decay="polynomial", power=0.5, keras=keras_version),
    ]
    return parts, in_phases(parts, [6, 5, 10], keras=keras_version)


@both_versions
def test_each_phase_counts_from_its_own_start(keras_version):
    parts, phased = three(keras_version)
    alone = [*rates(parts[0], range(6)), *rates(parts[1], range(5)), *rates(parts[2], range(12))]
    assert rates(phased, range(23)) == pytest.approx(alone)


def test_phases_that_do_not_fit_are_refused():
    parts, _ = three("tf_keras")
    for steps, message in (
        ([6], "phases of .* steps for 3 schedules"),
        ([6, 5, 0], r"steps\[2\]=0 is out of range; expected a whole number of 1 or more"),
        (6, "steps=6 is not a sequence"),
    ):
        with pytest.raises(ValueError, match=message):
            in_phases(parts, steps, keras="tf_keras")
