"""LARS and LAMB as a user of either Keras meets them: made, in compile, in fit, saved and loaded."""

import numpy as np
import pytest
import tensorflow as tf

import tfbigbatch
from tests.helpers import preloaded
from tests.helpers.keras_versions import (
    KERAS,
    KERAS_VERSIONS,
    applied,
    fitted,
    make,
    small_model,
    variables,
)
from tests.helpers.keras_versions import (
    OPTIMIZERS as CLASSES,
)
from tests.helpers.references.numpy_rules import lamb_run, lars_run
from tfbigbatch.keras_version import MODULES

OPTIMIZERS = [
    ("LARS", {"learning_rate": 0.5, "weight_decay": 0.01, "eeta": 0.05}),
    ("LAMB", {"learning_rate": 0.02, "weight_decay": 0.01}),
]
both_versions = pytest.mark.parametrize("keras_version", KERAS_VERSIONS)
both_optimizers = pytest.mark.parametrize("name, arguments", OPTIMIZERS)


@both_versions
@both_optimizers
def test_compile_and_fit_learns(keras_version, name, arguments):
    random = np.random.RandomState(0)
    x = random.normal(size=(256, 4)).astype("float32")
    model = small_model(keras_version, units=16, outputs=3)
    loss = KERAS[keras_version].losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=make(keras_version, name, **arguments), loss=loss, metrics=["accuracy"])
    history = model.fit(x, np.argmax(x[:, :3], axis=1), batch_size=64, epochs=25, verbose=0).history
    assert history["accuracy"][-1] > 0.8 > history["accuracy"][0]


# Every form, through the plain operations (eager or not) and through XLA, in both Kerases.
FORMS = [
    ("LAMB", {}, lamb_run, {}),
    ("LAMB", {"bias_correction": False}, lamb_run, {"bias_correction": False}),
    ("LAMB", {"trust_ratio_bounds": (0.5, 1.0)}, lamb_run, {"bounds": (0.5, 1.0)}),
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
@both_optimizers
def test_config_round_trip_keeps_everything(keras_version, name, arguments):
    schedules = KERAS[keras_version].optimizers.schedules
    options = {
        "learning_rate": schedules.CosineDecay(0.1, 100),
        "weight_decay": schedules.PolynomialDecay(0.1, 10, 0.01),
        "exclude_from_weight_decay": ["bias"],
        "exclude_from_layer_adaptation": [],
        "accumulation_steps": 4,
        "layer_statistics": True,
        "jit_compile": True,
        "global_clipnorm": 1.0,
        "use_ema": True,
    }
    if name == "LAMB":
        options.update(trust_ratio_bounds=(None, 10.0), pre_normalize=True, bias_correction=False)
    optimizer = make(keras_version, name, **options)
    serializer = KERAS[keras_version].optimizers
    stored = serializer.serialize(optimizer)
    assert stored["registered_name"] == f"tfbigbatch>{name}"
    restored = serializer.deserialize(stored)
    assert type(restored) is type(optimizer)
    config = restored.get_config()
    assert config == optimizer.get_config()
    assert config["exclude_from_layer_adaptation"] == []
    assert {
        key: config[key] for key in options if key not in ("learning_rate", "weight_decay", "trust_ratio_bounds")
    } == {
        key: value
        for key, value in options.items()
        if key not in ("learning_rate", "weight_decay", "trust_ratio_bounds")
    }


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
@both_optimizers
def test_a_saved_model_goes_on_as_if_never_stopped(keras_version, name, arguments, tmp_path):
    options = {"exclude_from_weight_decay": ["bias"], "jit_compile": name == "LARS"}
    model = fitted(keras_version, lambda: make(keras_version, name, **arguments, **options), steps=5)
    formats = [tmp_path / "model.keras"] + ([tmp_path / "saved_model"] if keras_version == "tf_keras" else [])
    for path in formats:
        model.save(path)
    loaded = [KERAS[keras_version].models.load_model(path) for path in formats]
    for each, path in zip(loaded[1:], formats[1:]):
        tfbigbatch.optimizers.restore_from_saved_model(each, str(path))
    x, y = np.ones([32, 4], "float32"), np.ones([32, 1], "float32")
    for each in (model, *loaded):
        each.fit(x, y, batch_size=8, epochs=1, shuffle=False, verbose=0)
    for each in loaded:
        assert type(each.optimizer) is CLASSES[keras_version].__dict__[name]
        assert each.optimizer.get_config()["exclude_from_weight_decay"] == ["bias"]
        for ours, theirs in zip(model.get_weights(), each.get_weights()):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)


@both_versions
@both_optimizers
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_narrow_variables_keep_float32_state(keras_version, name, arguments, dtype):
    variable = tf.Variable(tf.cast([1.0, -2.0, 3.0], dtype), name="kernel")
    optimizer = make(keras_version, name, **arguments)
    applied(optimizer, [[[0.1, 0.2, -0.3]]] * 3, [variable], dtype)
    assert {tf.as_dtype(slot.dtype) for slot in optimizer.variables if tuple(slot.shape) == (3,)} == {tf.float32}
    assert variable.dtype == dtype and np.isfinite(tf.cast(variable, tf.float32).numpy()).all()
    assert not np.array_equal(tf.cast(variable, tf.float32).numpy(), [1.0, -2.0, 3.0])


@both_versions
@both_optimizers
def test_float64_variables_are_updated_in_float64(keras_version, name, arguments):
    variable = tf.Variable(np.array([1.0, -2.0, 3.0]), name="kernel")
    gradients = [[0.1, 0.2, -0.3]] * 3
    applied(
        make(keras_version, name, learning_rate=0.125, weight_decay=0.01),
        [[g] for g in gradients],
        [variable],
        "float64",
    )
    expected = (lars_run if name == "LARS" else lamb_run)([1.0, -2.0, 3.0], gradients, [0.125] * 3)
    np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-9)


@both_versions
@pytest.mark.parametrize("jit_compile", [True, None])
def test_a_schedule_that_moves_is_traced_once(keras_version, jit_compile, monkeypatch):
    from tfbigbatch.optimizers import cpu_kernels, rules

    module, calls = rules if jit_compile else cpu_kernels, []
    original = module.lamb
    monkeypatch.setattr(module, "lamb", lambda *args, **options: calls.append(1) or original(*args, **options))
    schedule = KERAS[keras_version].optimizers.schedules.PolynomialDecay(0.05, 12, 0.01)
    model = fitted(
        keras_version, lambda: make(keras_version, "LAMB", learning_rate=schedule, jit_compile=jit_compile), steps=2
    )
    # A function that makes variables is traced twice: 4 variables, at most 2 traces of each.
    assert len(calls) in (4, 8)
    calls.clear()
    x, y = np.ones([64, 4], "float32"), np.ones([64, 1], "float32")
    model.fit(x, y, batch_size=32, epochs=10, verbose=0)
    assert calls == []


@both_versions
def test_a_model_of_the_other_keras_is_told_what_to_use(keras_version):
    other = {"tf_keras": "keras3", "keras3": "tf_keras"}[keras_version]
    ours, wanted = (MODULES[name] for name in (other, keras_version))
    with pytest.raises(ValueError, match=rf"optimizers.{ours}.LAMB; a model of the other Keras .*{wanted}.LAMB"):
        small_model(keras_version).compile(optimizer=make(other, "LAMB"))


def test_variables_of_keras_3_are_refused_by_optimizers_of_keras_2():
    with pytest.raises(ValueError, match="use tfbigbatch.optimizers.keras3"):
        make("tf_keras", "LAMB").build(variables("keras3", {"kernel": [1.0]}))


@pytest.mark.parametrize("legacy, expected", [("1", "keras2"), ("", "keras3")])
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
    assert outcome.stdout.split()[-1] == f"tfbigbatch.optimizers.{expected}"


def test_the_package_names_the_optimizers():
    assert tfbigbatch.LAMB is tfbigbatch.optimizers.LAMB
    assert tfbigbatch.optimizers.NORM_AND_BIAS
    with pytest.raises(AttributeError, match="no attribute 'LAMBDA'; it has"):
        _ = tfbigbatch.optimizers.LAMBDA


@pytest.mark.parametrize("name", ["Adasum", "LocalSteps", "LossScaleOptimizer"])
def test_what_needs_tensorflow_is_refused_on_another_backend_of_keras_3(name, monkeypatch):
    wrapped = {
        "Adasum": {"optimizer": KERAS["keras3"].optimizers.Adam()},
        "LocalSteps": {"optimizer": KERAS["keras3"].optimizers.Adam(), "every": 2},
        "LossScaleOptimizer": {"inner_optimizer": make("keras3", "LAMB")},
    }[name]
    monkeypatch.setattr(KERAS["keras3"].config, "backend", lambda: "jax")
    with pytest.raises(ValueError, match=f"{name} needs TensorFlow, and Keras 3 runs on jax here: set KERAS_BACKEND"):
        make("keras3", name, **wrapped)
