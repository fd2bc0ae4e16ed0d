"""One table test over every registered optimizer; one left out of the registry fails."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.keras_versions import (
    variables,
)
from tfbigbatch import optimizers
from tfbigbatch.optimizers import keras3, registry

ARGUMENTS = {
    "adamw": {"learning_rate": 0.05},
    "lamb": {"learning_rate": 0.05},
    "lars": {"learning_rate": 2.0, "eeta": 0.02},
    "momentum": {"learning_rate": 0.02, "nesterov": True},
    "muon": {"learning_rate": 0.05},
    "shampoo": {"learning_rate": 0.05, "graft": "lamb", "root": {"epsilon": 1e-3}},
}
OURS = ("lamb", "lars", "muon", "shampoo")

every_optimizer = pytest.mark.parametrize("name", registry.names())
each_of_ours = pytest.mark.parametrize("name", OURS)


def get(name, **arguments):
    return optimizers.get(name, keras="keras3", **{**ARGUMENTS[name], **arguments})


def test_every_optimizer_of_a_keras_is_registered():
    base = keras3.Face
    ours = {cls for cls in vars(keras3).values() if isinstance(cls, type) and issubclass(cls, base) and cls is not base}
    sharded = {"adamw": {"shard_updates": True}}
    assert ours == {type(get(name, **sharded.get(name, {}))) for name in (*OURS, "adamw")}
    assert set(ARGUMENTS) == set(registry.names())


@every_optimizer
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
def test_every_dtype_moves_and_stays_finite(name, dtype):
    if name not in OURS and dtype != "float32":
        pytest.skip("Keras' own, which keeps its state in the variable's dtype")
    variable = tf.Variable(tf.cast([[1.0, -2.0], [3.0, 0.5]], dtype), name="kernel")
    optimizer = get(name)
    for _ in range(20):
        optimizer.apply_gradients([(tf.cast([[0.1, 0.2], [-0.3, 0.0]], dtype), variable)])
    end = tf.cast(variable, tf.float32).numpy()
    assert np.isfinite(end).all() and end[0, 0] < 1.0 and end[1, 0] > 3.0


@each_of_ours
@pytest.mark.parametrize("compiled", [False, True])
def test_extreme_gradients_and_weights(name, compiled):
    """Zero, huge and tiny gradients, and weights of zero, leave finite weights; NaN is not hidden."""
    start = np.array([1.0, -2.0, 3.0])

    def after(gradient, weight=start, steps=3, **arguments):
        [variable] = variables("keras3", {"kernel": weight})
        optimizer = get(name, jit_compile=compiled, **arguments)
        for _ in range(steps):
            optimizer.apply_gradients([(tf.constant(gradient, tf.float32), variable)])
        return variable.numpy()

    np.testing.assert_array_equal(after([0.0, 0.0, 0.0]), start.astype("float32"))
    assert np.isfinite(after([0.0, 0.0, 0.0], weight_decay=0.1)).all()
    # A layer of zeros has no norm: it moves at the plain rate.
    moved = after([0.1, 0.2, 0.3], weight=np.zeros(3))
    assert np.isfinite(moved).all() and (moved < 0.0).all()
    # Beyond 1.8e19 the squares that LAMB's second moment is made of are no float32.
    for scale in (1e-30, 1e-12, 1e12, 1e18) + ((1e30,) if name == "lars" else ()):
        moved = after(np.array([1.0, -1.0, 1.0]) * scale)
        # Never further than a few ordinary steps.
        assert np.isfinite(moved).all() and np.abs(moved - start).max() < 2.0, scale
    for gradient in ([np.nan, 1.0, 1.0], [np.inf, 1.0, 1.0]):
        assert np.isnan(after(gradient)).any()
        assert np.isnan(after(gradient, global_clipnorm=1.0)).all()


def test_names_and_dictionaries_are_understood():
    assert optimizers.get("LAMB", keras="keras3").beta_1 == 0.9
    assert optimizers.get("momentum", keras="keras3").momentum == 0.9
    assert optimizers.get({"name": "lars", "eeta": 0.01}, keras="keras3", eeta=0.02).eeta == 0.02


def test_an_optimizer_of_the_users_own_has_a_name():
    class Mine(keras.optimizers.SGD):
        pass

    def nesterov(learning_rate, momentum=0.8):
        return keras.optimizers.SGD(learning_rate, momentum=momentum, nesterov=True)

    optimizers.register("mine", Mine)
    optimizers.register("nesterov", nesterov)
    assert registry.names() == ["adamw", "lamb", "lars", "mine", "momentum", "muon", "nesterov", "shampoo"]
    assert isinstance(optimizers.get("mine", keras="keras3", momentum=0.5, global_clipnorm=1.0), Mine)
    assert optimizers.get("nesterov", keras="keras3", learning_rate=0.1).nesterov
    with pytest.raises(ValueError, match="no argument 'momentun'. Did you mean 'momentum'"):
        optimizers.get("nesterov", keras="keras3", learning_rate=0.1, momentun=0.5)
    with pytest.raises(ValueError, match="'lamb' is an optimizer of tfbigbatch. Choose another name"):
        optimizers.register("lamb", Mine)
    with pytest.raises(ValueError, match="name='Mine'; expected a name in lower case"):
        optimizers.register("Mine", Mine)
    with pytest.raises(ValueError, match="3 cannot be called"):
        optimizers.register("mine", 3)


def test_unknown_names_are_told_the_nearest():
    with pytest.raises(ValueError, match="'lam' is unknown. Did you mean 'lamb'"):
        optimizers.get("lam")
    with pytest.raises(ValueError, match="no argument 'wieght_decay'. Did you mean 'weight_decay'"):
        optimizers.get("lamb", wieght_decay=0.1)
    with pytest.raises(ValueError, match="None is unknown. Known: adamw, lamb, lars, momentum, muon, shampoo"):
        optimizers.get({"learning_rate": 0.1})
    with pytest.raises(ValueError, match="keras='keras2' is unknown. Did you mean"):
        optimizers.get("lamb", keras="keras2")


@pytest.mark.parametrize("name", ["adamw", "lamb"])
@pytest.mark.parametrize("patterns, kept", [("norm_and_bias", {"kernel"}), (["kernel$"], {"bias", "gamma", "beta"})])
def test_weight_decay_leaves_out_what_it_is_told_to(name, patterns, kept):
    optimizer = optimizers.get(
        name, keras="keras3", learning_rate=0.1, weight_decay=0.5, exclude_from_weight_decay=patterns
    )
    layers = [
        keras.layers.Dense(2, bias_initializer="ones"),
        keras.layers.LayerNormalization(),
    ]
    for layer in layers:
        layer.build([None, 2])
    weights = [variable for layer in layers for variable in layer.trainable_variables]
    before = [variable.numpy() for variable in weights]
    optimizer.build(weights)
    optimizer.apply_gradients([(tf.zeros_like(value), variable) for value, variable in zip(before, weights)])
    names = [variable.name.split("/")[-1].split(":")[0] for variable in weights]
    changed = {name for name, one, other in zip(names, before, weights) if (one != other.numpy()).any()}
    # Beta is 0 at first, and stays so either way.
    assert changed == kept - {"beta"}
