import pytest
import tensorflow as tf

from tfbigbatch import keras_version, schedules

KERAS_VERSIONS = sorted(keras_version.PACKAGES)


def rates(schedule, steps):
    return [float(schedule(tf.constant(step, tf.int64))) for step in steps]


def three(keras_version):
    parts = [
        schedules.build(0.4, warmup_steps=2, total_steps=6, decay="linear", keras=keras_version),
        schedules.build(0.1, warmup_steps=4, total_steps=5, keras=keras_version),
        schedules.build(1.0, warmup_steps=0, total_steps=10, decay="polynomial", power=0.5, keras=keras_version),
    ]
    return parts, schedules.in_phases(parts, [6, 5, 10], keras=keras_version)


@pytest.mark.parametrize("keras_version", KERAS_VERSIONS)
def test_each_phase_counts_from_its_own_start(keras_version):
    parts, phased = three(keras_version)
    alone = [*rates(parts[0], range(6)), *rates(parts[1], range(5)), *rates(parts[2], range(12))]
    assert rates(phased, range(23)) == pytest.approx(alone)


@pytest.mark.parametrize("keras_version", KERAS_VERSIONS)
def test_it_serialises_and_compiles(keras_version):
    _, phased = three(keras_version)
    again = type(phased).from_config(phased.get_config())
    compiled = tf.function(again, jit_compile=True, autograph=False)
    assert rates(compiled, range(21)) == pytest.approx(rates(phased, range(21)))


def test_one_phase_is_its_schedule():
    only = schedules.build(0.4, warmup_steps=2, total_steps=6, keras="tf_keras")
    assert schedules.in_phases([only], [6], keras="tf_keras") is only


@pytest.mark.parametrize(
    "steps, message",
    [
        ([6], "phases of .* steps for 3 schedules"),
        ([], "phases of .* steps for 3 schedules"),
        ([6, 5, 0], r"steps\[2\]=0 is out of range; expected a whole number of 1 or more"),
        ([6, 5.5, 1], r"steps\[1\]=5.5 is not a whole number"),
        ([6, "5", 1], r"steps\[1\]='5' is not a number"),
        (6, "steps=6 is not a sequence"),
    ],
)
def test_phases_that_do_not_fit_are_refused(steps, message):
    parts, _ = three("tf_keras")
    with pytest.raises(ValueError, match=message):
        schedules.in_phases(parts, steps, keras="tf_keras")


def test_phases_of_what_is_no_schedule_of_this_keras_are_refused():
    parts, _ = three("keras3")
    with pytest.raises(ValueError, match=r"schedules\[0\]=.* take a schedule of the Keras that the optimizer is for"):
        schedules.in_phases(parts, [6, 5, 10], keras="tf_keras")
    with pytest.raises(ValueError, match=r"schedules\[0\]=0.1 is not a"):
        schedules.in_phases([0.1], [6], keras="tf_keras")
    with pytest.raises(ValueError, match="schedules=0.1 is not a sequence"):
        schedules.in_phases(0.1, [6], keras="tf_keras")
    with pytest.raises(ValueError, match="at least one schedule"):
        schedules.in_phases([], [], keras="tf_keras")
