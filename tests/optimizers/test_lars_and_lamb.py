"""LARS and LAMB as a user meets them: against float64 NumPy, in compile, in fit, saved and loaded."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import preloaded
from tests.helpers.keras_versions import applied, assert_same_weights, fitted, small_data, variables
from tests.helpers.optimizers_in_numpy import lamb_run, lars_run
from tfbigbatch.optimizers import keras3
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


# Every form, through the plain operations (eager or not) and through XLA.
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


@pytest.mark.parametrize("compiled", [None, "graph", "xla"])
def test_twelve_updates_with_a_changing_rate_follow_numpy(compiled):
    random = np.random.RandomState(1)
    weight, gradients = random.normal(size=(5, 4)), random.normal(size=(12, 5, 4))
    rates = [0.05 + (0.01 - 0.05) * step / 12 for step in range(12)]
    for name, options, reference, reference_options in FORMS:
        schedule = keras.optimizers.schedules.PolynomialDecay(0.05, 12, 0.01)
        [variable] = variables("keras3", {"kernel": weight})
        optimizer = getattr(keras3, name)(
            learning_rate=schedule, weight_decay=0.01, jit_compile=compiled == "xla", **options
        )

        def update(gradient):
            optimizer.apply_gradients([(gradient, variable)])

        update = tf.function(update) if compiled else update
        for gradient in gradients:
            update(tf.constant(gradient, tf.float32))
        expected = reference(weight, gradients, rates, **reference_options)
        np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-5, atol=2e-6, err_msg=f"{name} {options}")


def test_a_callable_rate_and_a_scheduled_decay_follow_numpy():
    random = np.random.RandomState(3)
    weight, gradients = random.normal(size=6), random.normal(size=(5, 6))
    rate = tf.Variable(0.1)
    decay = keras.optimizers.schedules.PolynomialDecay(0.2, 5, 0.0)
    [variable] = variables("keras3", {"kernel": weight})
    optimizer = keras3.LAMB(learning_rate=lambda: rate * 0.5, weight_decay=decay)
    update = tf.function(lambda gradient: optimizer.apply_gradients([(gradient, variable)]) is None)
    rates, decays = [0.05, 0.04, 0.03, 0.02, 0.01], [0.2, 0.16, 0.12, 0.08, 0.04]
    for value, gradient in zip(rates, gradients):
        rate.assign(2 * value)
        update(tf.constant(gradient, tf.float32))
    expected = lamb_run(weight, gradients, rates, wd=decays)
    np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-5, atol=1e-6)
    assert optimizer.get_config()["learning_rate"] == pytest.approx(0.01)


@pytest.mark.parametrize("name, arguments", SAVED)
def test_a_saved_model_goes_on_as_if_never_stopped(name, arguments, tmp_path):
    options = {"exclude_from_weight_decay": ["bias"], "global_clipnorm": 1.0, "jit_compile": name == "LARS"}
    model = fitted("keras3", lambda: getattr(keras3, name)(**arguments, **options), steps=5)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for each in (model, loaded):
        each.fit(*small_data(32), batch_size=8, shuffle=False, verbose=0)
    assert type(loaded.optimizer) is getattr(keras3, name)
    assert loaded.optimizer.get_config() == model.optimizer.get_config()
    assert_same_weights(loaded, model, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["LARS", "LAMB"])
def test_float64_variables_are_updated_in_float64(name):
    variable = tf.Variable(np.array([1.0, -2.0, 3.0]), name="kernel")
    gradient, optimizer = [0.1, 0.2, -0.3], getattr(keras3, name)(learning_rate=0.125, weight_decay=0.01)
    applied(optimizer, [[gradient]] * 3, [variable], "float64")
    expected = (lars_run if name == "LARS" else lamb_run)([1.0, -2.0, 3.0], [gradient] * 3, [0.125] * 3)
    np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-9)


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
