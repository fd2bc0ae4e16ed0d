"""LARS and LAMB as a user of tf_keras meets them: in compile, in fit, saved and loaded."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tfbigbatch
from tests.optimizers.numpy_rules import lamb_run, lars_run

OPTIMIZERS = [
    ("LARS", dict(learning_rate=0.5, weight_decay=0.01, eeta=0.05)),
    ("LAMB", dict(learning_rate=0.02, weight_decay=0.01)),
]


def small_model():
    return tf_keras.Sequential(
        [tf_keras.layers.Dense(16, activation="relu", input_shape=(8,)), tf_keras.layers.Dense(3)]
    )


def small_data(examples=256):
    random = np.random.RandomState(0)
    x = random.normal(size=(examples, 8)).astype("float32")
    return x, np.argmax(x[:, :3], axis=1)


def make(name, **arguments):
    return getattr(tfbigbatch, name)(**arguments)


@pytest.mark.parametrize("name, arguments", OPTIMIZERS)
def test_compile_and_fit_learns(name, arguments):
    model = small_model()
    loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=make(name, **arguments), loss=loss, metrics=["accuracy"])
    history = model.fit(*small_data(), batch_size=64, epochs=25, verbose=0).history
    assert history["accuracy"][-1] > 0.8 > history["accuracy"][0]


@pytest.mark.parametrize("name, reference", [("LARS", lars_run), ("LAMB", lamb_run)])
def test_twelve_updates_with_a_schedule_follow_numpy(name, reference):
    random = np.random.RandomState(1)
    weight, gradients = random.normal(size=20), random.normal(size=(12, 20))
    schedule = tf_keras.optimizers.schedules.PolynomialDecay(0.05, 12, 0.01)
    rates = [0.05 + (0.01 - 0.05) * step / 12 for step in range(12)]
    variable = tf.Variable(weight.astype("float32"), name="kernel")
    optimizer = make(name, learning_rate=schedule, weight_decay=0.01)
    for gradient in gradients:
        optimizer.apply_gradients([(tf.constant(gradient, tf.float32), variable)])
    np.testing.assert_allclose(variable.numpy(), reference(weight, gradients, rates), rtol=1e-5, atol=1e-6)


def test_exclusions_act_on_decay_and_on_the_ratio_apart():
    random = np.random.RandomState(2)
    weights = {name: random.normal(size=6) for name in ("dense/kernel", "dense/bias", "norm/gamma")}
    gradients = {name: random.normal(size=(3, 6)) for name in weights}
    optimizer = tfbigbatch.LAMB(
        0.01, weight_decay=0.1, exclude_from_weight_decay=["bias", "norm"], exclude_from_layer_adaptation=["gamma$"]
    )
    variables = {name: tf.Variable(value.astype("float32"), name=name) for name, value in weights.items()}
    for step in range(3):
        optimizer.apply_gradients(
            [(tf.constant(gradients[name][step], tf.float32), variable) for name, variable in variables.items()]
        )
    for name, decay, adapt in (("dense/kernel", 0.1, True), ("dense/bias", 0.0, True), ("norm/gamma", 0.0, False)):
        expected = lamb_run(weights[name], gradients[name], [0.01] * 3, wd=decay, adapt=adapt)
        np.testing.assert_allclose(variables[name].numpy(), expected, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("given, expected_adapts", [(None, [True, False]), ([], [True, True])])
def test_no_adaptation_list_means_as_decay_and_an_empty_one_means_none(given, expected_adapts):
    optimizer = tfbigbatch.LARS(exclude_from_weight_decay=["bias"], exclude_from_layer_adaptation=given)
    optimizer.build([tf.Variable([1.0], name="kernel"), tf.Variable([1.0], name="bias")])
    assert optimizer._adapts == expected_adapts


def test_keras_own_method_of_exclusion_counts_too():
    optimizer = tfbigbatch.LAMB(weight_decay=0.1)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    optimizer.build([tf.Variable([1.0], name="kernel"), tf.Variable([1.0], name="bias")])
    assert optimizer._decays == optimizer._adapts == [True, False]


@pytest.mark.parametrize("name, arguments", OPTIMIZERS)
def test_config_round_trip_keeps_everything(name, arguments):
    schedule = tf_keras.optimizers.schedules.CosineDecay(0.1, 100)
    optimizer = make(
        name,
        **{**arguments, "learning_rate": schedule},
        exclude_from_weight_decay=["bias"],
        exclude_from_layer_adaptation=[],
        global_clipnorm=1.0,
    )
    stored = tf_keras.optimizers.serialize(optimizer)
    assert stored["registered_name"] == f"tfbigbatch>{name}"
    restored = tf_keras.optimizers.deserialize(stored)
    assert type(restored) is type(optimizer)
    assert restored.get_config() == optimizer.get_config()
    assert restored.get_config()["exclude_from_layer_adaptation"] == []


@pytest.mark.parametrize("name, arguments", OPTIMIZERS)
def test_a_saved_model_goes_on_as_if_never_stopped(name, arguments, tmp_path):
    loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model = small_model()
    model.compile(optimizer=make(name, **arguments), loss=loss)
    model.fit(*small_data(), batch_size=64, epochs=1, shuffle=False, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = tf_keras.models.load_model(tmp_path / "model.keras")
    for each in (model, loaded):
        each.fit(*small_data(), batch_size=64, epochs=1, shuffle=False, verbose=0)
    for ours, theirs in zip(model.get_weights(), loaded.get_weights()):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name, arguments", OPTIMIZERS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_narrow_variables_keep_float32_state(name, arguments, dtype):
    variable = tf.Variable(tf.cast([1.0, -2.0, 3.0], dtype), name="kernel")
    optimizer = make(name, **arguments)
    for _ in range(3):
        optimizer.apply_gradients([(tf.cast([0.1, 0.2, -0.3], dtype), variable)])
    assert {slot.dtype for slot in optimizer.variables[1:] if slot.shape.rank} == {tf.float32}
    assert variable.dtype == dtype and np.isfinite(tf.cast(variable, tf.float32).numpy()).all()


@pytest.mark.parametrize("name, arguments", OPTIMIZERS)
def test_sparse_gradients_give_the_dense_result(name, arguments):
    sparse = tf.IndexedSlices(tf.constant([[1.0, 2.0], [3.0, 4.0], [0.5, 0.5]]), tf.constant([0, 2, 0]), (3, 2))
    results = []
    for gradient in (sparse, tf.convert_to_tensor(sparse)):
        variable = tf.Variable([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]], name="table")
        optimizer = make(name, **arguments)
        for _ in range(3):
            optimizer.apply_gradients([(gradient, variable)])
        results.append(variable.numpy())
    np.testing.assert_allclose(*results, rtol=1e-6)


@pytest.mark.parametrize(
    "name, arguments, said",
    [
        ("LARS", dict(momentum=1.0), "momentum=1.0 is out of range"),
        ("LARS", dict(form="papr"), "form='papr' is unknown"),
        ("LAMB", dict(beta_2=1.5), "beta_2=1.5 is out of range"),
        ("LAMB", dict(weight_decay=-0.1), "weight_decay=-0.1 is negative"),
        ("LAMB", dict(exclude_from_weight_decay="bias"), r"write \['bias'\]"),
        ("LAMB", dict(exclude_from_weight_decay=["("]), "is not a regular expression"),
    ],
)
def test_bad_arguments_say_what_was_expected(name, arguments, said):
    with pytest.raises(ValueError, match=said):
        make(name, **arguments)
