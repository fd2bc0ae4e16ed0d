"""Shampoo against float64 NumPy: grafts, options, what is not preconditioned, and failing roots."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.keras_versions import state_by_name, variables
from tests.helpers.optimizers_in_numpy import shampoo_run
from tfbigbatch.optimizers import keras3

each_graft = pytest.mark.parametrize("graft", ["sgd", "rmsprop", "lars", "lamb"])
STEPS = 10
RATES = 0.1 / (1 + np.arange(STEPS))
# The learning rate of each graft, so that steps are of the same size.
SCALE = {"sgd": 1.0, "rmsprop": 0.1, "lars": 5.0, "lamb": 0.3}


def gradients_for(shape, seed=0, steps=STEPS):
    """A changing gradient, of many lengths along its first axis."""
    random = np.random.RandomState(seed)
    lengths = np.geomspace(1.0, 0.1, shape[0]).reshape([-1] + [1] * (len(shape) - 1))
    return random.normal(size=shape), random.normal(size=(steps, *shape)) * lengths


def run(weight, gradients, rates, name="kernel", **arguments):
    """Where steps with these gradients and learning rates end."""
    [variable] = variables("keras3", {name: weight})
    optimizer = keras3.Shampoo(learning_rate=0.0, **arguments)
    for gradient, rate in zip(gradients, rates):
        optimizer.learning_rate = rate
        optimizer.apply_gradients([(tf.constant(gradient, tf.float32), variable)])
    return np.array(variable)


def check(shape, method="sgd", reference=None, tolerance=2e-3, **arguments):
    """Ours after some steps against NumPy; `reference`: the options of NumPy where they have other names."""
    weight, gradients = gradients_for(shape)
    own = {"weight_decay": 0.01, "beta_2": 0.9, "block_size": 8, **arguments}
    own["graft"] = {"method": method, "steps": 0, **arguments.get("graft", {})}
    own["root"] = {"epsilon": 1e-4, **arguments.get("root", {})}
    rates = RATES * SCALE[method]
    end = run(weight, gradients, rates, **own)
    theirs = {"block_size": own["block_size"], "matrix_epsilon": 1e-4, "graft": method, **(reference or {})}
    expected = shampoo_run(weight, gradients, rates, **theirs)
    # Relative to how far the weights moved.
    np.testing.assert_allclose(end - weight, expected - weight, atol=tolerance * np.abs(expected - weight).max())


@each_graft
def test_every_graft_follows_numpy(graft):
    check((12, 20), graft)


@pytest.mark.parametrize(
    "graft, arguments, reference",
    [
        ("lars", {"graft": {"steps": 5}}, {"graft_steps": 5}),
        ("lamb", {"graft": {"steps": 5}}, {"graft_steps": 5}),
        ("lars", {"graft": {"eeta": 0.002}}, {"eeta": 0.002}),
        ("rmsprop", {"graft": {"epsilon": 0.1}}, {"eps": 0.1}),
        ("sgd", {"root": {"every": 4}}, {"every": 4}),
        ("rmsprop", {"root": {"method": "newton"}}, {}),
        ("sgd", {"root": {"exponent": 2}}, {"p": 2}),
        ("sgd", {"beta_1": 0.5}, {"b1": 0.5}),
        ("lamb", {"beta_1": 0.5}, {"b1": 0.5}),
        ("lars", {"block_size": 128}, {}),
    ],
)
def test_every_option_follows_numpy(graft, arguments, reference):
    check((12, 20), graft, reference, **arguments)


@pytest.mark.parametrize("shape", [(5,), (20,), (3, 3), (2, 3, 12, 10), (3, 3, 4, 3), (9, 10, 9, 2)])
def test_any_shape_follows_numpy(shape):
    """Vectors, small kernels in one block, convolutions, and axes that no block size divides."""
    check(shape)


def test_a_long_side_is_preconditioned_where_a_pattern_asks_for_it():
    optimizer = keras3.Shampoo(treatments={"wide": "matrix"})
    plain, short, wide = optimizer.views(["kernel", "short", "wide"], [(8193, 2), (8192, 2), (8193, 2)])
    assert plain is None and short.axes == (8192, 2) and wide.axes == (8193, 2)


def test_what_is_not_preconditioned_takes_the_grafts_step_or_adams():
    weight, gradients = gradients_for((12,))
    expected = shampoo_run(weight, gradients, RATES, precondition=False)
    arguments = {"weight_decay": 0.01, "beta_2": 0.9, "graft": {"steps": 0}}
    end = run(weight, gradients, RATES, vectors="graft", **arguments)
    np.testing.assert_allclose(end, expected, rtol=1e-5)
    end = run(weight, gradients, RATES, treatments={"kernel": "vector"}, **arguments)
    np.testing.assert_allclose(end, expected, rtol=1e-5)
    vectors = {"step": "adam", "learning_rate_ratio": 0.5, "beta_2": 0.9}
    end = run(weight, gradients, RATES, vectors=vectors, **arguments)
    adam = keras3.LAMB(learning_rate=0.0, beta_2=0.9, epsilon=1e-8, weight_decay=0.01,
                exclude_from_layer_adaptation=["."])  # fmt: skip
    [variable] = variables("keras3", {"kernel": weight})
    for gradient, rate in zip(gradients, RATES):
        adam.learning_rate = 0.5 * rate
        adam.apply_gradients([(tf.constant(gradient, tf.float32), variable)])
    np.testing.assert_allclose(end, np.array(variable), rtol=1e-5)


@each_graft
@pytest.mark.parametrize("value", [0.0, 1e-30, 1e18])
def test_extreme_gradients_leave_finite_weights(graft, value):
    """Rank one, zero, tiny and huge; where the statistics are no float32 the root stays as it was."""
    weight, _ = gradients_for((3, 4))
    gradient = value * np.outer([1.0, -2.0, 0.5], [1.0, 1.0, -1.0, 0.0])
    rate = {"sgd": 1e-2 / max(value, 1.0), "rmsprop": 0.003, "lars": 1.0, "lamb": 0.1}[graft]
    end = run(weight, [gradient] * 4, [rate] * 4, graft={"method": graft, "steps": 0}, block_size=8)
    assert np.isfinite(end).all() and np.abs(end - weight).max() < 1.0
    if value == 0.0:
        np.testing.assert_array_equal(end, weight.astype("float32"))


def test_a_root_that_fails_leaves_the_last_one():
    weight, gradients = gradients_for((6, 5))
    [variable] = variables("keras3", {"kernel": weight})
    optimizer = keras3.Shampoo(learning_rate=0.01, block_size=8, graft={"steps": 0})

    def roots():
        return [value for name, value in state_by_name(optimizer).items() if "roots" in name]

    for gradient in gradients[:3]:
        optimizer.apply_gradients([(tf.constant(gradient, tf.float32), variable)])
    before = roots()
    assert len(before) == 2 and all(np.isfinite(root).all() for root in before)
    # The weights become NaN as the gradient; the roots stay.
    optimizer.apply_gradients([(tf.constant(gradients[3] * np.nan, tf.float32), variable)])
    assert np.isnan(np.array(variable)).all()
    np.testing.assert_equal(roots(), before)


@pytest.mark.parametrize("method", ["newton", "eigh"])
def test_no_root_yet_is_the_identity(method):
    """A first root that float32 cannot find, of a singular matrix with next to no damping: the step is the graft's."""
    weight, _ = gradients_for((6, 5))
    gradient = np.outer(np.arange(6.0), [1.0, -1.0, 2.0, 0.5, 0.3])
    # Without momentum.
    arguments = {"beta_1": 0.0, "graft": {"steps": 0}, "block_size": 8}
    end = run(weight, [gradient], [0.1], root={"method": method, "epsilon": 1e-12}, **arguments)
    np.testing.assert_allclose(end, weight - 0.1 * gradient, rtol=1e-5, atol=1e-6)
    root = {"method": method, "epsilon": 1e-4}
    end = run(weight, [gradient + np.eye(6, 5)], [0.1], root=root, **arguments)
    assert np.abs(end - (weight - 0.1 * (gradient + np.eye(6, 5)))).max() > 0.1


def test_the_public_implementation_of_the_published_result():
    """Weights that google-research's distributed_shampoo (optax-shampoo 0.0.6 on JAX 0.6.2, float32) ends with."""
    random = np.random.RandomState(0)
    weight, lengths = random.normal(size=(4, 2)), np.geomspace(1.0, 0.1, 4)[:, np.newaxis]
    gradients = 1000.0 * random.normal(size=(6, 4, 2)) * lengths
    arguments = {
        "beta_2": 0.9, "root": {"epsilon": 1e-4}, "weight_decay": 0.01, "block_size": 4,
    }  # fmt: skip
    golden = {
        "sgd": [[1.5200975, 0.65790784], [1.0450962, 2.0650935], [1.7703254, -1.1315523], [0.91865504, -0.18555857]],
        "rmsprop": [[1.7755718, 0.3957382], [0.89169556, 2.1526184], [1.783753, -1.1131244], [0.83995503, -0.2000967]],
    }
    for graft, peak in (("sgd", 1e-4), ("rmsprop", 0.01)):
        end = run(weight, gradients, peak / (1 + np.arange(6)), graft={"method": graft, "steps": 2}, **arguments)
        np.testing.assert_allclose(end, golden[graft], rtol=2e-5)
