"""LARS and LAMB as a user of either Keras meets them: made, in compile, in fit, saved and loaded."""

import numpy as np
import pytest
import tensorflow as tf

import tfbigbatch
from tests.helpers import preloaded
from tests.helpers.keras_versions import KERAS, applied, both_versions, fitted, make, small_model, variables
from tests.helpers.keras_versions import OPTIMIZERS as CLASSES
from tests.helpers.optimizers_in_numpy import lamb_run, lars_run
from tfbigbatch.optimizers.rule import AccumulationSchedule

OPTIMIZERS = [
    ("LARS", {"learning_rate": 0.5, "weight_decay": 0.01, "eeta": 0.05}),
    ("LAMB", {"learning_rate": 0.02, "weight_decay": 0.01}),
]
SAVED = [
    *OPTIMIZERS,
    (
        "Muon",
        {
            "learning_rate": 0.02,
            "normuon_beta": 0.9,
            "treatments": [["hidden", "matrix"]],
            "newton_schulz": {"steps": 3, "coefficients": "quintic", "product_dtype": "float32"},
        },
    ),
    ("Shampoo", {"learning_rate": 0.02, "root": {"exponent": 2, "epsilon": 1e-3, "method": None, "every": 2}}),
    ("LAMB", {"learning_rate": 0.02, "accumulation_steps": AccumulationSchedule([1, 2], [2, 9])}),
]


# Every form, through the plain operations (eager or not) and through XLA, in both Kerases.
FORMS = [
    ("LAMB", {}, lamb_run, {}),
    ("LAMB", {"bias_correction": False}, lamb_run, {"bias_correction": False}),
    ("LAMB", {"trust_ratio_bounds": (0.5, 1.0)}, lamb_run, {"bounds": (0.5, 1.0)}),
    ("LAMB", {"trust_ratio_bounds": (None, 1.0)}, lamb_run, {"bounds": (0.0, 1.0)}),
    ("LAMB", {"epsilon": 0.0}, lamb_run, {"eps": 0.0}),
] + [
    ("LARS", {"form": form, "nesterov": nesterov}, lars_run, {"form": form, "nesterov": nesterov})
    for form in ("paper", "tfm", "momentum_ratio")
    for nesterov in (False, True)
]


@both_versions
@pytest.mark.parametrize("compiled", [None, "graph", "xla"])
def test_twelve_updates_with_a_changing_rate_follow_numpy(keras_version, compiled):
    random = np.random.RandomState(1)
    weight, gradients = random.normal(size=(5, 4)), random.normal(size=(12, 5, 4))
    rates = [0.05 + (0.01 - 0.05) * step / 12 for step in range(12)]
    for name, options, reference, reference_options in FORMS:
        schedule = KERAS[keras_version].optimizers.schedules.PolynomialDecay(0.05, 12, 0.01)
        [variable] = variables(keras_version, {"kernel": weight})
        optimizer = make(
            keras_version, name, learning_rate=schedule, weight_decay=0.01, jit_compile=compiled == "xla", **options
        )

        def update(gradient):
            optimizer.apply_gradients([(gradient, variable)])

        update = tf.function(update) if compiled else update
        for gradient in gradients:
            update(tf.constant(gradient, tf.float32))
        expected = reference(weight, gradients, rates, **reference_options)
        np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-5, atol=2e-6, err_msg=f"{name} {options}")


@both_versions
def test_a_callable_rate_and_a_scheduled_decay_follow_numpy(keras_version):
    random = np.random.RandomState(3)
    weight, gradients = random.normal(size=6), random.normal(size=(5, 6))
    rate = tf.Variable(0.1)
    decay = KERAS[keras_version].optimizers.schedules.PolynomialDecay(0.2, 5, 0.0)
    [variable] = variables(keras_version, {"kernel": weight})
    optimizer = make(keras_version, "LAMB", learning_rate=lambda: rate * 0.5, weight_decay=decay)
    update = tf.function(lambda gradient: optimizer.apply_gradients([(gradient, variable)]) is None)
    rates, decays = [0.05, 0.04, 0.03, 0.02, 0.01], [0.2, 0.16, 0.12, 0.08, 0.04]
    for value, gradient in zip(rates, gradients):
        rate.assign(2 * value)
        update(tf.constant(gradient, tf.float32))
    expected = lamb_run(weight, gradients, rates, wd=decays)
    np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-5, atol=1e-6)
    assert optimizer.get_config()["learning_rate"] == pytest.approx(0.01)


@both_versions
@pytest.mark.parametrize("name, arguments", SAVED)
def test_a_saved_model_goes_on_as_if_never_stopped(keras_version, name, arguments, tmp_path):
    options = {"exclude_from_weight_decay": ["bias"], "global_clipnorm": 1.0, "jit_compile": name == "LARS"}
    model = fitted(keras_version, lambda: make(keras_version, name, **arguments, **options), steps=5)
    names = ["model.keras", "model.h5", "saved_model"] if keras_version == "tf_keras" else ["model.keras"]
    formats = [tmp_path / each for each in names]
    for path in formats:
        model.save(path)
    loaded = [KERAS[keras_version].models.load_model(path) for path in formats]
    for each, path in zip(loaded[2:], formats[2:]):
        tfbigbatch.keras2.restore_from_saved_model(each, str(path))
    x, y = np.ones([32, 4], "float32"), np.ones([32, 1], "float32")
    for each in (model, *loaded):
        each.fit(x, y, batch_size=8, epochs=1, shuffle=False, verbose=0)
    for each in loaded:
        assert type(each.optimizer) is CLASSES[keras_version].__dict__[name]
        assert each.optimizer.get_config() == model.optimizer.get_config()
        for ours, theirs in zip(model.get_weights(), each.get_weights()):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)


@both_versions
@pytest.mark.parametrize("name", ["LARS", "LAMB"])
def test_float64_variables_are_updated_in_float64(keras_version, name):
    variable = tf.Variable(np.array([1.0, -2.0, 3.0]), name="kernel")
    gradient, optimizer = [0.1, 0.2, -0.3], make(keras_version, name, learning_rate=0.125, weight_decay=0.01)
    applied(optimizer, [[gradient]] * 3, [variable], "float64")
    expected = (lars_run if name == "LARS" else lamb_run)([1.0, -2.0, 3.0], [gradient] * 3, [0.125] * 3)
    np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-9)


@both_versions
def test_a_model_of_the_other_keras_is_told_what_to_use(keras_version):
    other = {"tf_keras": "keras3", "keras3": "tf_keras"}[keras_version]
    ours, wanted = ({"tf_keras": "keras2", "keras3": "optimizers.keras3"}[name] for name in (other, keras_version))
    with pytest.raises(
        ValueError, match=rf"tfbigbatch.{ours}.LAMB; a model of the other Keras .*tfbigbatch.{wanted}.LAMB"
    ):
        small_model(keras_version).compile(optimizer=make(other, "LAMB"))


@pytest.mark.parametrize("legacy, expected", [("1", "keras2"), ("", "optimizers.keras3")])
def test_the_package_gives_the_optimizers_of_the_tf_keras_in_use(legacy, expected, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import tensorflow as tf, tfbigbatch\n"
        "m = tf.keras.Sequential([tf.keras.layers.Dense(1)])\n"
        "m.compile(tfbigbatch.LARS(0.1), 'mse')\n"
        "m.fit(tf.ones([4, 2]), tf.ones([4, 1]), verbose=0)\n"
        "print(type(m.optimizer).__module__)\n"
    )
    outcome = preloaded.run(str(program), TF_USE_LEGACY_KERAS=legacy)
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    assert outcome.stdout.split()[-1] == f"tfbigbatch.{expected}"
