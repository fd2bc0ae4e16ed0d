"""The optimizers for tf_keras (Keras 2) take the steps of those for Keras 3; replicas, files, errors.

What the rules compute is tested for Keras 3; tests/parity compares those for tf_keras with other libraries.
"""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.conftest import mirrored
from tests.helpers.keras_versions import (
    KERAS,
    ONE_DEVICE,
    OPTIMIZERS,
    assert_same_weights,
    fitted,
    make,
    small_data,
    small_model,
    variables,
)
from tests.helpers.optimizers_in_numpy import lamb_run
from tfbigbatch import keras2, optimizers
from tfbigbatch.optimizers import keras3, registry
from tfbigbatch.optimizers.rule import AccumulationSchedule

START = [np.random.RandomState(1).normal(size=shape) for shape in ((4, 4), (4,), (4, 1), (1,))]
CASES = {
    "LARS": {"learning_rate": 0.5, "eeta": 0.02, "nesterov": True, "global_clipnorm": 0.5},
    "LAMB": {"learning_rate": 0.05, "accumulation_steps": 2},
    "AdamW": {"learning_rate": 0.05, "amsgrad": True, "clipnorm": 0.5},
    "Muon": {
        "learning_rate": 0.02,
        "normuon_beta": 0.9,
        "treatments": [["hidden", "matrix"]],
        "newton_schulz": {"steps": 3, "coefficients": "quintic", "product_dtype": "float32"},
        "accumulation_steps": AccumulationSchedule([1, 2], [2, 9]),
    },
    "Shampoo": {"learning_rate": 0.02, "root": {"epsilon": 1e-3, "every": 2}, "graft": {"steps": 1}, "block_size": 2},
}
WRAPPERS = {"Adasum": {"combine": "updates"}, "LocalSteps": {"every": 3, "outer": "nesterov"}}
each_case = pytest.mark.parametrize("name", CASES)


def trained(keras_version, name, strategy=ONE_DEVICE, wrapper=None, **compile_arguments):
    """The small model after sixteen batches, with a rate that falls."""
    fields = dict(CASES[name])
    rate = KERAS[keras_version].optimizers.schedules.PolynomialDecay(fields.pop("learning_rate"), 16, 0.001)
    with strategy.scope():
        model = small_model(keras_version)
        model.set_weights(START)
        options = {"weight_decay": 0.01, "exclude_from_weight_decay": ["bias"], **fields}
        optimizer = make(keras_version, name, learning_rate=rate, **options)
        if wrapper:
            optimizer = make(keras_version, wrapper, optimizer=optimizer, **WRAPPERS[wrapper])
        model.compile(optimizer, "mse", **{"jit_compile": False, **compile_arguments})
    model.fit(*small_data(16 * 8), batch_size=8, shuffle=False, verbose=0)
    return model


def is_slow(name, keras_version, where):
    # The roots of Shampoo take ten seconds to compile.
    return where == "xla" and (name == "Shampoo" or keras_version == "tf_keras") or where == "4 replicas"


WAYS = [("tf_keras", "graph"), *((version, way) for version in KERAS for way in ("xla", "2 replicas", "4 replicas"))]
ENDS = [(name, *way) for name in CASES for way in WAYS]


@pytest.mark.parametrize(
    "name, keras_version, where", [pytest.param(*each, marks=[pytest.mark.slow] * is_slow(*each)) for each in ENDS]
)
def test_fit_ends_where_that_of_keras_3_does_on_one_device(name, keras_version, where):
    strategy = mirrored(int(where[0])) if where.endswith("replicas") else ONE_DEVICE
    found = trained(keras_version, name, strategy, jit_compile=where == "xla")
    assert type(found.optimizer) is getattr(OPTIMIZERS[keras_version], name)
    assert_same_weights(found, trained("keras3", name))


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_wrapper_ends_where_that_of_keras_3_does_and_is_saved(wrapper, tmp_path):
    model = trained("tf_keras", "LARS", mirrored(2), wrapper)
    assert_same_weights(model, trained("keras3", "LARS", mirrored(2), wrapper))
    alone = trained("tf_keras", "LARS", ONE_DEVICE, wrapper)
    for suffix in ("keras", "h5"):
        alone.save(str(tmp_path / f"model.{suffix}"))
        loaded = tf_keras.models.load_model(str(tmp_path / f"model.{suffix}"))
        assert type(loaded.optimizer) is getattr(keras2, wrapper)
        for one, other in zip(alone.optimizer.variables, loaded.optimizer.variables, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_callable_rate_and_a_scheduled_decay_follow_numpy():
    random = np.random.RandomState(3)
    weight, gradients = random.normal(size=6), random.normal(size=(5, 6))
    rate = tf.Variable(0.1)
    decay = tf_keras.optimizers.schedules.PolynomialDecay(0.2, 5, 0.0)
    [variable] = variables("tf_keras", {"kernel": weight})
    optimizer = keras2.LAMB(learning_rate=lambda: rate * 0.5, weight_decay=decay)
    update = tf.function(lambda gradient: optimizer.apply_gradients([(gradient, variable)]) is None)
    rates, decays = [0.05, 0.04, 0.03, 0.02, 0.01], [0.2, 0.16, 0.12, 0.08, 0.04]
    for value, gradient in zip(rates, gradients):
        rate.assign(2 * value)
        update(tf.constant(gradient, tf.float32))
    np.testing.assert_allclose(variable.numpy(), lamb_run(weight, gradients, rates, wd=decays), rtol=1e-5, atol=1e-6)


def test_sparse_gradients_give_the_dense_result():
    sparse = tf.IndexedSlices(tf.constant([[1.0, 2.0], [3.0, 4.0], [0.5, 0.5]]), tf.constant([0, 2, 0]), (3, 2))
    ends = []
    for gradient in (sparse, tf.convert_to_tensor(sparse)):
        [table] = variables("tf_keras", {"table": np.ones((3, 2))})
        optimizer = keras2.LAMB(0.1, clipnorm=0.5)
        for _ in range(3):
            optimizer.apply_gradients([(gradient, table)])
        ends.append(table.numpy())
    np.testing.assert_array_equal(*ends)


# ---- Files ------------------------------------------------------------------------------------


@each_case
def test_a_saved_model_goes_on_as_if_never_stopped(name, tmp_path):
    model = fitted("tf_keras", lambda: make("tf_keras", name, **CASES[name]), steps=5)
    paths = [str(tmp_path / each) for each in ("model.keras", "model.h5", "saved_model")]
    for path in paths:
        model.save(path)
    # Of a folder tf_keras reads the weights alone.
    loaded = [tf_keras.models.load_model(path) for path in paths[:2]]
    for each in (model, *loaded):
        each.fit(*small_data(32), batch_size=8, shuffle=False, verbose=0)
    for each in loaded:
        assert type(each.optimizer) is getattr(keras2, name)
        assert each.optimizer.get_config() == model.optimizer.get_config()
        assert_same_weights(each, model, rtol=1e-6, atol=1e-7)


def test_a_checkpoint_between_micro_batches_goes_on_as_if_never_stopped(tmp_path):
    def compiled(steps):
        return fitted("tf_keras", lambda: keras2.LAMB(use_ema=True, **CASES["LAMB"]), steps=steps, run_eagerly=True)

    model, other = compiled(5), compiled(2)
    path = tf.train.Checkpoint(model=model, optimizer=model.optimizer).write(str(tmp_path / "checkpoint"))
    tf.train.Checkpoint(model=other, optimizer=other.optimizer).restore(path)
    for each in (model, other):
        each.fit(*small_data(24), batch_size=8, shuffle=False, verbose=0)
    np.testing.assert_equal(other.get_weights(), model.get_weights())
    averages = [each.optimizer._model_variables_moving_average for each in (model, other)]
    np.testing.assert_equal(*([average.numpy() for average in each] for each in averages))
    with pytest.raises(ValueError, match="momentum/.*: none there"):
        lars = keras2.LARS()
        tf.train.Checkpoint(optimizer=lars).restore(path)
        lars.build(other.trainable_variables)


# ---- The other Keras --------------------------------------------------------------------------


@pytest.mark.parametrize("keras_version, own, wanted", [
    ("tf_keras", "optimizers.keras3", "keras2"), ("keras3", "keras2", "optimizers.keras3"),
])  # fmt: skip
def test_a_model_or_a_schedule_of_the_other_keras_is_told_what_to_use(keras_version, own, wanted):
    other = {"tf_keras": "keras3", "keras3": "tf_keras"}[keras_version]
    said = rf"tfbigbatch.{own}.LAMB; a model of the other Keras .*tfbigbatch.{wanted}.LAMB"
    with pytest.raises(ValueError, match=said):
        small_model(keras_version).compile(optimizer=make(other, "LAMB"))
    schedule = KERAS[other].optimizers.schedules.CosineDecay(0.1, 10)
    for argument in ("learning_rate", "weight_decay"):
        with pytest.raises(ValueError, match=f"LAMB: {argument} is a schedule of the other Keras"):
            make(keras_version, "LAMB", **{argument: schedule})


def test_it_has_every_optimizer_of_keras_3():
    names = {each for each in keras3.__all__ if isinstance(getattr(keras3, each), type)} - {"LossScaleOptimizer"}
    assert names <= set(keras2.__all__)
    for name in registry.names():
        assert isinstance(optimizers.get(name, keras="tf_keras"), tf_keras.optimizers.Optimizer), name
