import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.helpers.keras_versions import KERAS, both_versions
from tests.schedules.test_schedules import made, rates
from tfbigbatch import keras2, schedules
from tfbigbatch.scaling.date import make_adjustable
from tfbigbatch.schedules.by_name import DECAYS

ADJUSTABLE = {"tf_keras": keras2.AdjustableWarmup, "keras3": schedules.keras3.AdjustableWarmup}
PEAK, WARMUP, DECAY = 0.4, 10, 100


def linear(keras_version, peak=PEAK):
    return KERAS[keras_version].optimizers.schedules.PolynomialDecay(peak, DECAY, end_learning_rate=0.0)


@both_versions
@pytest.mark.parametrize("gain", [0.0625, 0.5, 1.0, 1.5])
def test_the_formula(keras_version, gain):
    schedule = ADJUSTABLE[keras_version](PEAK, WARMUP, linear(keras_version), gain=gain)
    steps = np.arange(0, WARMUP + DECAY + 5)
    after = PEAK * (1 - np.clip(steps - WARMUP, 0, DECAY) / DECAY)
    np.testing.assert_allclose(rates(schedule, steps), np.minimum(PEAK * steps / WARMUP, gain * after), atol=1e-7)


@pytest.mark.parametrize("decay", DECAYS)
def test_a_gain_of_one_is_the_plan_of_each_decay(decay):
    """Bit by bit, compiled or not."""
    plan = made(decay)
    adjustable = make_adjustable(plan)
    steps = tf.range(110, dtype=tf.int64)
    for compiled in (False, True):
        ours, theirs = (
            tf.function(lambda schedule=schedule: tf.map_fn(schedule, steps, tf.float32), jit_compile=compiled)
            for schedule in (adjustable, plan)
        )
        np.testing.assert_array_equal(ours().numpy(), theirs().numpy())


@both_versions
def test_the_gain_is_read_in_the_graph(keras_version):
    schedule = ADJUSTABLE[keras_version](PEAK, WARMUP)
    traces = []

    @tf.function
    def rate(step):
        traces.append(1)
        return schedule(step)

    assert float(rate(tf.constant(10))) == pytest.approx(0.4)
    schedule.gain.assign(0.25)
    assert float(rate(tf.constant(10))) == pytest.approx(0.1) and len(traces) == 1


@both_versions
def test_serialises_with_its_gain_and_what_follows(keras_version):
    schedule = ADJUSTABLE[keras_version](PEAK, WARMUP, linear(keras_version))
    schedule.gain.assign(0.75)
    optimizer = KERAS[keras_version].optimizers.SGD(schedule)
    optimizers = KERAS[keras_version].optimizers
    restored = optimizers.deserialize(optimizers.serialize(optimizer))._learning_rate
    assert isinstance(restored, ADJUSTABLE[keras_version]) and float(restored.gain) == 0.75
    assert rates(restored, [3, 9, 30, 90]) == rates(schedule, [3, 9, 30, 90])


def test_make_adjustable_takes_a_linear_warm_up_and_refuses_other_schedules():
    plan = made("linear")
    adjustable = make_adjustable(plan)
    assert isinstance(adjustable, ADJUSTABLE["tf_keras"]) and make_adjustable(adjustable) is adjustable
    with pytest.raises(ValueError, match="cannot be adjusted: expected a GradualWarmup"):
        make_adjustable(tf_keras.optimizers.schedules.CosineDecay(0.1, 10))
    with pytest.raises(ValueError, match="warmup_shape='exponential' cannot be adjusted"):
        make_adjustable(made("linear", warmup_shape="exponential"))


@both_versions
def test_what_follows_must_fit(keras_version):
    other = "keras3" if keras_version == "tf_keras" else "tf_keras"
    with pytest.raises(ValueError, match="take a schedule of the Keras that the optimizer is for"):
        ADJUSTABLE[keras_version](PEAK, WARMUP, linear(other))
    with pytest.raises(ValueError, match="after begins at 0.3, the warm-up ends at peak=0.4"):
        ADJUSTABLE[keras_version](PEAK, WARMUP, linear(keras_version, peak=0.3))
    with pytest.raises(ValueError, match="gain=0.0.* expected a finite number above 0"):
        ADJUSTABLE[keras_version](PEAK, WARMUP, gain=0.0)


def test_another_backend_of_keras_3_is_refused(monkeypatch):
    plan = schedules.build(0.4, warmup_steps=2, total_steps=10, keras="keras3")
    monkeypatch.setattr(keras.config, "backend", lambda: "jax")
    with pytest.raises(ValueError, match="An adjustable schedule needs TensorFlow, .* set KERAS_BACKEND=tensorflow"):
        make_adjustable(plan)
    # Keras 2 has TensorFlow alone.
    make_adjustable(made("linear"))
