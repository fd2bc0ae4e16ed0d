"""What all instruments share in `fit`, of Keras 2 too."""

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import mirrored
from tests.helpers.instrument_models import examples, fit, model_of, tanh
from tests.helpers.keras_versions import make
from tfbigbatch import instruments

PROBE = examples(16, seed=1)


def all_of(log=None, **options):
    return [
        instruments.GradientNoiseScale(probe=PROBE, micro_batches=4, log=log, **options),
        instruments.Sharpness(probe=PROBE, micro_batches=4, iterations=3, trace_samples=2, log=log, **options),
        instruments.LayerStatistics(histograms=True, log=log, **options),
    ]


@pytest.mark.parametrize("keras_version", ["keras3", pytest.param("tf_keras", marks=pytest.mark.slow)])
def test_a_run_ends_in_the_same_bits_with_all_of_them_and_the_events_are_read_back(keras_version, tmp_path):
    def normalised(layers):
        return layers.BatchNormalization()

    def lamb():
        return make(keras_version, "LAMB", learning_rate=0.01, layer_statistics=True)

    options = {"optimizer": lamb, "keras_version": keras_version}
    watched, alone = (model_of(tanh, normalised, **options) for _ in range(2))
    fit(watched, all_of(log=tmp_path / "events", when=3), steps=7)
    fit(alone, steps=7)
    np.testing.assert_equal(watched.get_weights(), alone.get_weights())

    scalars, others = {}, {}
    (path,) = (tmp_path / "events").glob("*tfevents*")
    for event in tf.compat.v1.train.summary_iterator(str(path)):
        for value in event.summary.value:
            plugin = value.metadata.plugin_data.plugin_name
            (scalars if plugin == "scalars" else others).setdefault(value.tag, []).append((event.step, value.tensor))
    assert {step for steps in scalars.values() for step, _ in steps} == {3, 6}
    path = (
        watched.trainable_variables[0].path if keras_version == "keras3" else watched.trainable_variables[0].name[:-2]
    )
    expected = {f"layers/{kind}_norm/{path}" for kind in ("weight", "update")}
    expected |= {f"layers/trust_ratio/{path}", f"layers/update_to_weight/{path}"}
    expected |= {f"noise_scale/{name}" for name in ("squared_norm", "trace")}
    expected |= {f"sharpness/{name}" for name in ("eigenvalue_1", "trace", "trace_error", "rise", "loss")}
    assert expected <= set(scalars)
    assert {f"layers/weights/{path}", f"layers/updates/{path}"} <= set(others)


def test_each_measurement_is_once_at_its_step_over_calls_of_fit_and_executions():
    seen = []
    for options, steps in (({}, [(0, 5), (5, 4)]), ({"steps_per_execution": 4}, [(0, 8), (8, 3)])):
        layers = instruments.LayerStatistics(when=3)
        model = model_of(**options)
        for _, count in steps:
            fit(model, [layers], steps=count)
        seen.append([row["step"] for row in layers.history])
    assert seen == [[3, 6, 9], [4, 8, 11]]


def test_a_model_is_measured_outside_of_fit_as_in_it():
    probe = examples(16)
    inside = instruments.Sharpness(probe=probe, when=[4])
    model = model_of(tanh)
    fit(model, [inside], steps=4)
    outside = instruments.Sharpness(probe=probe)
    assert outside.measure(model, step=4) == inside.history[-1] and len(outside.history) == 1


def test_an_update_cannot_be_measured_outside_of_fit():
    model = model_of()
    with pytest.raises(ValueError, match="LayerStatistics.measure: .*Pass it to fit"):
        instruments.LayerStatistics().measure(model)


def test_when_is_an_interval_or_a_list_and_there_is_one_source_of_gradients():
    for when in (0, [], [0], [2, -1], 1.5 * np.ones(1), True):
        with pytest.raises(ValueError, match="expected the number of steps between measurements, 1 or more, or a list"):
            instruments.LayerStatistics(when=when)
    for options in ({}, {"probe": PROBE, "step_gradients": object()}):
        with pytest.raises(ValueError, match="expected one source of gradients, probe or step_gradients"):
            instruments.GradientNoiseScale(**options)


def test_replicas_see_what_one_sees():
    rows = []
    for strategy in (None, mirrored(2)):
        # Sharpness has a test of its own.
        noise, _, layers = all_of(when=[2])
        fit(model_of(tanh, strategy=strategy), [noise, layers], steps=3)
        rows.append([list(each.history[0].values()) for each in (noise, layers)])
    for one, other in zip(*rows):
        assert one == pytest.approx(other, rel=1e-3, abs=1e-5, nan_ok=True)
