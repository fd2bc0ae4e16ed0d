"""LARS and LAMB as a user of either Keras meets them: made, in compile, in fit, saved and loaded."""

import warnings

import numpy as np
import pytest
import tensorflow as tf

import tfbigbatch
from tests.helpers import keras_versions, preloaded
from tests.helpers.keras_versions import (
    KERAS,
    KERAS_VERSIONS,
    fitted,
    make,
    small_model,
    variables,
)
from tests.helpers.keras_versions import (
    OPTIMIZERS as CLASSES,
)
from tests.helpers.references.numpy_rules import lamb_run, lars_run
from tfbigbatch import optimizers
from tfbigbatch.keras_version import MODULES

OPTIMIZERS = [
    ("LARS", {"learning_rate": 0.5, "weight_decay": 0.01, "eeta": 0.05}),
    ("LAMB", {"learning_rate": 0.02, "weight_decay": 0.01}),
]
both_versions = pytest.mark.parametrize("keras_version", KERAS_VERSIONS)
both_optimizers = pytest.mark.parametrize("name, arguments", OPTIMIZERS)


def applied(optimizer, gradients, variables, dtype="float32"):
    """One update for each row of gradients: lists of arrays, one for each variable."""
    for row in gradients:
        optimizer.apply_gradients([(tf.constant(g, dtype), variable) for g, variable in zip(row, variables)])


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
def test_pre_normalised_gradients_are_of_global_norm_one(keras_version):
    random = np.random.RandomState(5)
    weights = {"a": random.normal(size=6), "b": random.normal(size=(2, 3))}
    gradients = [[10 * random.normal(size=6), 10 * random.normal(size=(2, 3))] for _ in range(4)]
    ours = variables(keras_version, weights)
    applied(make(keras_version, "LAMB", learning_rate=0.1, pre_normalize=True), gradients, ours)
    scaled = [[g / np.sqrt(sum((h**2).sum() for h in row)) for g in row] for row in gradients]
    for i, (variable, weight) in enumerate(zip(ours, weights.values())):
        expected = lamb_run(weight, [row[i] for row in scaled], [0.1] * 4, wd=0.0)
        np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-5, atol=1e-6)


@both_versions
def test_exclusions_act_on_decay_and_on_the_ratio_apart(keras_version):
    random = np.random.RandomState(2)
    weights = {name: random.normal(size=6) for name in ("kernel", "bias", "gamma")}
    gradients = [[random.normal(size=6) for _ in weights] for _ in range(3)]
    optimizer = make(
        keras_version,
        "LAMB",
        learning_rate=0.01,
        weight_decay=0.1,
        exclude_from_weight_decay=["bias", "gamma"],
        exclude_from_layer_adaptation=["gamma$"],
    )
    ours = variables(keras_version, weights)
    applied(optimizer, gradients, ours)
    for i, (name, decay, adapt) in enumerate((("kernel", 0.1, True), ("bias", 0.0, True), ("gamma", 0.0, False))):
        expected = lamb_run(weights[name], [row[i] for row in gradients], [0.01] * 3, wd=decay, adapt=adapt)
        np.testing.assert_allclose(ours[i].numpy(), expected, rtol=1e-5, atol=1e-6, err_msg=name)


def decayed(optimizer, variables):
    """The names of the variables, all set to 1, that a step without a gradient changes: by their decay."""
    for variable in variables:
        variable.assign(np.ones(variable.shape))
    optimizer.apply_gradients([(tf.zeros(variable.shape), variable) for variable in variables])
    return [variable.name.split(":")[0] for variable in variables if not (np.array(variable) == 1.0).all()]


@both_versions
@pytest.mark.parametrize("given, expected_adapts", [(None, [True, False]), ([], [True, True])])
def test_no_adaptation_list_means_as_decay_and_an_empty_one_means_none(keras_version, given, expected_adapts):
    options = {"exclude_from_weight_decay": ["bias"], "exclude_from_layer_adaptation": given}
    optimizer = make(keras_version, "LARS", layer_statistics=True, **options)
    applied(optimizer, [[[1.0], [1.0]]], variables(keras_version, {"kernel": [1.0], "bias": [1.0]}))
    assert [layer.trust_ratio != 1.0 for layer in optimizer.layer_statistics().values()] == expected_adapts


@both_versions
def test_keras_own_method_of_exclusion_counts_too(keras_version):
    optimizer = make(keras_version, "LAMB", weight_decay=0.1, layer_statistics=True)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    ours = variables(keras_version, {"kernel": [1.0], "bias": [1.0]})
    assert decayed(optimizer, ours) == ["kernel"]
    applied(optimizer, [[[1.0], [1.0]]], ours)
    assert [layer.trust_ratio != 1.0 for layer in optimizer.layer_statistics().values()] == [True, False]


@both_versions
def test_the_usual_set_excludes_norms_and_biases_by_name(keras_version):
    layers = KERAS[keras_version].layers
    model = KERAS[keras_version].Sequential(
        [layers.Input((8, 8, 3)), layers.Conv2D(4, 3), layers.BatchNormalization(), layers.LayerNormalization()]
        + [layers.Flatten(), layers.Dense(2)]
    )
    optimizer = make(keras_version, "LAMB", weight_decay=0.1, exclude_from_weight_decay="norm_and_bias")
    names = decayed(optimizer, model.trainable_variables)
    assert len(names) == 2 and all(name.endswith("kernel") for name in names)
    assert optimizer.get_config()["exclude_from_weight_decay"] == "norm_and_bias"


@both_versions
def test_a_pattern_without_a_match_warns_once_with_likely_paths(keras_version):
    model = small_model(keras_version)
    optimizer = make(keras_version, "LAMB", exclude_from_weight_decay=["biass", "kernel"])
    with pytest.warns(UserWarning, match="'biass' matches none of the 4 variables.*could have meant: .*bias") as caught:
        optimizer.build(model.trainable_variables)
    assert len([each for each in caught if "matches none" in str(each.message)]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.build(model.trainable_variables)


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
@pytest.mark.parametrize("rate", [1, np.float32(1.0), np.int64(1)])
def test_any_number_is_a_rate(keras_version, rate):
    assert float(make(keras_version, "LAMB", learning_rate=rate).learning_rate.numpy()) == 1.0


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
@both_optimizers
@pytest.mark.parametrize("clipping", [{}, {"global_clipnorm": 0.5}, {"clipnorm": 0.5}, {"clipvalue": 0.1}])
def test_sparse_gradients_give_the_dense_result(keras_version, name, arguments, clipping):
    # Row 0 comes twice: its two parts add up before anything is measured or clipped.
    sparse = tf.IndexedSlices(tf.constant([[1.0, 2.0], [3.0, 4.0], [0.5, 0.5]]), tf.constant([0, 2, 0]), (3, 2))
    results = []
    for gradient in (sparse, tf.convert_to_tensor(sparse)):
        variable = tf.Variable([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]], name="table")
        optimizer = make(keras_version, name, **arguments, **clipping)
        for _ in range(3):
            optimizer.apply_gradients([(gradient, variable)])
        results.append(variable.numpy())
    np.testing.assert_array_equal(*results)


@both_versions
def test_layer_statistics_tell_the_last_update(keras_version):
    [kernel, bias] = variables(keras_version, {"kernel": [3.0, 4.0], "bias": [0.0, 0.0]})
    optimizer = make(
        keras_version, "LAMB", learning_rate=0.1, exclude_from_layer_adaptation=["bias"], layer_statistics=True
    )
    with pytest.raises(ValueError, match="has made no update yet"):
        optimizer.layer_statistics()
    applied(optimizer, [[[1.0, 1.0], [1.0, 1.0]]], [kernel, bias])
    statistics = optimizer.layer_statistics()
    assert list(statistics) == ["kernel", "bias"]
    # The first direction is of ones: its norm is sqrt 2, and the ratio brings the step to 0.1 |w|.
    assert statistics["kernel"] == pytest.approx((5 / np.sqrt(2), 5.0, 0.5), rel=1e-5)
    assert statistics["bias"] == pytest.approx((1.0, 0.0, 0.1 * np.sqrt(2)), rel=1e-5)
    with pytest.raises(ValueError, match="layer_statistics=True"):
        make(keras_version, "LAMB").layer_statistics()


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


def test_the_old_word_for_the_rate_is_refused():
    for keras_version in KERAS_VERSIONS:
        with pytest.raises(ValueError, match="write learning_rate=0.1|not recognized"):
            make(keras_version, "LAMB", lr=0.1)


@both_versions
@pytest.mark.parametrize("argument", ["learning_rate", "weight_decay"])
def test_a_schedule_of_the_other_keras_is_told(keras_version, argument):
    other = {"tf_keras": "keras3", "keras3": "tf_keras"}[keras_version]
    schedule = KERAS[other].optimizers.schedules.CosineDecay(0.1, 10)
    with pytest.raises(ValueError, match=f"LAMB: {argument} is a schedule of the other Keras"):
        make(keras_version, "LAMB", **{argument: schedule})


def test_keras_accumulation_is_refused_with_our_word_for_it():
    with pytest.raises(ValueError, match="Write accumulation_steps=4"):
        make("keras3", "LAMB", gradient_accumulation_steps=4)


@both_versions
@pytest.mark.parametrize(
    "name, arguments, said",
    [
        ("LARS", {"momentum": 1.0}, "momentum=1.0 is out of range"),
        ("LARS", {"eeta": 0.0}, "eeta=0.0 is out of range"),
        ("LARS", {"form": "papr"}, "form='papr' is unknown"),
        ("LAMB", {"beta_2": 1.5}, "beta_2=1.5 is out of range"),
        ("LAMB", {"epsilon": -1.0}, "epsilon=-1.0 is out of range"),
        ("LAMB", {"weight_decay": -0.1}, "weight_decay=-0.1 is out of range"),
        ("LAMB", {"weight_decay": float("nan")}, "weight_decay=nan is out of range"),
        ("LAMB", {"trust_ratio_bounds": (2.0, 1.0)}, r"trust_ratio_bounds=\(2.0, 1.0\) is not a pair of bounds"),
        ("LAMB", {"trust_ratio_bounds": 10.0}, "expected \\(low, high\\)"),
        ("LAMB", {"accumulation_steps": 0}, "accumulation_steps=0 is not a number of micro-batches"),
        ("LAMB", {"exclude_from_weight_decay": "bias"}, r"write \['bias'\], or one of the sets 'norm_and_bias'"),
        ("LAMB", {"exclude_from_weight_decay": ["("]}, "is not a regular expression"),
    ],
)
def test_bad_arguments_say_what_was_expected(keras_version, name, arguments, said):
    with pytest.raises(ValueError, match=said):
        make(keras_version, name, **arguments)


def test_the_package_names_the_optimizers():
    assert tfbigbatch.LAMB is tfbigbatch.optimizers.LAMB
    assert tfbigbatch.optimizers.NORM_AND_BIAS
    with pytest.raises(AttributeError, match="no attribute 'LAMBDA'; it has"):
        _ = tfbigbatch.optimizers.LAMBDA


NUMBERS = {
    "LAMB": [
        "learning_rate",
        "weight_decay",
        "beta_1",
        "beta_2",
        "epsilon",
        "clipnorm",
        "clipvalue",
        "global_clipnorm",
    ],
    "LARS": ["learning_rate", "weight_decay", "momentum", "eeta", "epsilon", "ema_momentum"],
    "Muon": [
        "learning_rate",
        "weight_decay",
        "momentum",
        "normuon_beta",
        "vector_learning_rate_ratio",
        "beta_1",
        "beta_2",
        "epsilon",
    ],
}
FLAGS = {
    "LAMB": ["bias_correction", "pre_normalize", "use_ema"],
    "LARS": ["nesterov", "layer_statistics"],
    "Muon": ["nesterov", "share_work"],
}


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


@both_versions
@pytest.mark.parametrize("arguments", [{}, {"jit_compile": True}, {"accumulation_steps": 2}])
@pytest.mark.parametrize("name, options", [("LAMB", {}), ("LARS", {"form": "momentum_ratio"})])
def test_gradients_of_another_shape_are_refused(keras_version, name, options, arguments):
    [kernel] = variables(keras_version, {"kernel": np.ones((2, 3))})
    optimizer = make(keras_version, name, **options, **arguments)
    with pytest.raises(
        ValueError, match=rf"{name}: the gradient of 'kernel' is of shape \(3,\), the variable of \(2, 3\)"
    ):
        optimizer.apply_gradients([(tf.ones(3), kernel)])
    np.testing.assert_array_equal(kernel.numpy(), np.ones((2, 3)))
    with pytest.raises(ValueError, match="accumulate_gradients: the gradient of 'kernel.*' is of shape"):
        optimizers.accumulate_gradients(lambda batch: [batch], tf.ones([2, 3]), [kernel], 2)


@both_versions
def test_integer_variables_are_refused_by_name(keras_version):
    counter = tf.Variable([3, 4], name="counter")
    if keras_version == "keras3":
        counter = KERAS["keras3"].Variable(np.array([3, 4]), dtype="int32", name="counter")
    [kernel] = variables(keras_version, {"kernel": [1.0]})
    optimizer = make(keras_version, "LAMB")
    with pytest.raises(ValueError, match="LAMB: 'counter' is of int32, .*[Mm]ake it with trainable=False"):
        optimizer.apply_gradients([(tf.ones(1), kernel), (tf.constant([0.4, 0.4]), counter)])
    # Without a gradient it changes nothing.
    optimizer.apply_gradients([(tf.ones(1), kernel), (None, counter)])
    np.testing.assert_array_equal(counter.numpy(), [3, 4])
    with pytest.raises(ValueError, match="accumulate_gradients: 'counter.*' is of int32"):
        optimizers.accumulate_gradients(lambda batch: [batch], tf.ones([2, 2]), [counter], 2)


@both_versions
@pytest.mark.parametrize("name", NUMBERS)
def test_every_hyperparameter_is_checked(keras_version, name):
    for argument in NUMBERS[name]:
        for value in (-0.1, float("nan"), float("inf"), True, "0.1", [0.1], {"a": 1}):
            for made in (make, lambda version, name, **options: optimizers.get(name.lower(), keras=version, **options)):
                with pytest.raises(ValueError, match=f"{argument}=.* is (not a number|out of range); expected"):
                    made(keras_version, name, **{argument: value})
    for argument in FLAGS[name]:
        with pytest.raises(ValueError, match=f"{name}: {argument}=1 is neither True nor False"):
            make(keras_version, name, **{argument: 1})
    for value in (0, 1.5, True, "2"):
        with pytest.raises(ValueError, match=f"{name}: accumulation_steps={value!r} is not a number of micro-batches"):
            make(keras_version, name, accumulation_steps=value)
    optimizer = make(keras_version, name)
    with pytest.raises(ValueError, match=f"{name}: epsilon=nan is out of range"):
        optimizer.epsilon = float("nan")
    assert optimizer.epsilon == optimizer.get_config()["epsilon"] >= 0.0


@both_versions
def test_keras_own_and_adasum_are_checked_by_name(keras_version):
    for arguments, said in (
        ({"name": "adamw", "learning_rate": True}, "optimizer 'adamw': learning_rate=True is not a number"),
        ({"name": "momentum", "momentum": -0.5}, "optimizer 'momentum': momentum=-0.5 is out of range"),
        ({"name": "adamw", "adasum": {"group_size": 1.5}}, "group_size=1.5 is not a number of replicas"),
        ({"name": "lamb", "adasum": {"combine": 3}}, "combine=3 is unknown"),
    ):
        with pytest.raises(ValueError, match=said):
            optimizers.get(arguments, keras=keras_version)


@both_versions
@pytest.mark.parametrize("library", [int, np.float32, np.int64, np.array, tf.constant, tf.Variable])
def test_a_number_of_any_library_is_a_learning_rate(keras_version, library):
    value = library(1.0)
    optimizer = make(keras_version, "LAMB", learning_rate=value, weight_decay=value, epsilon=value)
    assert float(optimizer.learning_rate) == optimizer.weight_decay == optimizer.epsilon == float(value)
    assert type(optimizer).from_config(optimizer.get_config()).get_config() == optimizer.get_config()


@both_versions
def test_schedules_and_callables_are_taken(keras_version):
    schedule = KERAS[keras_version].optimizers.schedules.CosineDecay(0.1, 10)
    for value in (schedule, lambda: 0.1):
        assert make(keras_version, "LARS", learning_rate=value, weight_decay=value).weight_decay is value


@both_versions
@pytest.mark.parametrize(
    "name, theirs, said",
    [
        ("LAMB", {"lr": 0.1}, "Did you mean 'learning_rate'.*write learning_rate=0.1"),
        ("LAMB", {"weight_decay_rate": 0.01}, "write weight_decay=0.01"),
        ("LAMB", {"beta1": 0.9}, "write beta_1=0.9"),
        ("LAMB", {"beta2": 0.9}, "write beta_2=0.9"),
        ("LAMB", {"betas": (0.9, 0.99)}, "Write beta_1 and beta_2"),
        ("LAMB", {"eps": 1e-6}, "write epsilon=1e-06"),
        ("LAMB", {"exclude_from_weight_decy": ["bias"]}, "Did you mean 'exclude_from_weight_decay'"),
        ("LAMB", {"max_grad_norm": 1.0}, "write global_clipnorm=1.0"),
        ("LAMB", {"clip_norm": 1.0}, "write clipnorm=1.0"),
        ("LAMB", {"decay": 0.1}, "Give a schedule as learning_rate"),
        ("LARS", {"trust_coefficient": 0.001}, "write eeta=0.001"),
        ("LARS", {"classic_momentum": False}, "form='momentum_ratio' for False"),
        ("LARS", {"momentun": 0.9}, "Did you mean 'momentum'"),
    ],
)
def test_the_names_of_other_libraries_are_answered_with_ours(keras_version, name, theirs, said):
    for made in (make, lambda version, name, **options: optimizers.get(name.lower(), keras=version, **options)):
        with pytest.raises(ValueError, match=f"takes no argument '{next(iter(theirs))}'.*{said}"):
            made(keras_version, name, **theirs)


@both_versions
def test_arguments_by_position_are_answered_with_their_names(keras_version):
    ours = keras_versions.OPTIMIZERS[keras_version]
    with pytest.raises(
        ValueError, match=r"LAMB: 0.9, 0.99 came without a name; only learning_rate may.*beta_1, beta_2"
    ):
        ours.LAMB(0.1, 0.9, 0.99)
    with pytest.raises(ValueError, match="LAMB: learning_rate came twice, as 0.1 and as 0.2"):
        ours.LAMB(0.1, learning_rate=0.2)
    with pytest.raises(ValueError, match="Adasum takes no argument 'group'. Did you mean 'group_size'"):
        ours.Adasum(ours.LAMB(), group=2)
    assert ours.Adasum(ours.LAMB(), "updates", 2).group_size == 2


@both_versions
def test_hyperparameters_are_attributes_that_count(keras_version):
    optimizer, ends = make(keras_version, "LARS", learning_rate=0.1, eeta=0.01), []
    assert (optimizer.momentum, optimizer.form) == (0.9, "paper")
    for eeta in (0.01, 0.02):
        optimizer.eeta = eeta
        [variable] = variables(keras_version, {"kernel": [3.0, 4.0]})
        fresh = type(optimizer).from_config(optimizer.get_config())
        applied(fresh, [[[1.0, 0.0]]], [variable])
        ends.append(variable.numpy()[0] - 3.0)
    assert optimizer.get_config()["eeta"] == 0.02
    assert ends[1] == pytest.approx(2 * ends[0], rel=1e-4)
