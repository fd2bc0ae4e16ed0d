"""What applies to each layer: decay, adaptation, clipping, statistics; variables and gradients that are none of it."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.keras_versions import applied, small_model, variables
from tests.helpers.optimizers_in_numpy import lamb_run
from tfbigbatch import optimizers
from tfbigbatch.optimizers import keras3


def test_exclusions_act_on_decay_and_on_the_ratio_apart():
    random = np.random.RandomState(2)
    weights = {name: random.normal(size=6) for name in ("kernel", "bias", "gamma")}
    gradients = [[random.normal(size=6) for _ in weights] for _ in range(3)]
    optimizer = keras3.LAMB(
        learning_rate=0.01,
        weight_decay=0.1,
        exclude_from_weight_decay=["bias", "gamma"],
        exclude_from_layer_adaptation=["gamma$"],
    )
    ours = variables("keras3", weights)
    applied(optimizer, gradients, ours)
    for i, (name, decay, adapt) in enumerate((("kernel", 0.1, True), ("bias", 0.0, True), ("gamma", 0.0, False))):
        expected = lamb_run(weights[name], [row[i] for row in gradients], [0.01] * 3, wd=decay, adapt=adapt)
        np.testing.assert_allclose(ours[i].numpy(), expected, rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_pattern_without_a_match_warns_once_with_likely_paths():
    model = small_model("keras3")
    optimizer = keras3.LAMB(exclude_from_weight_decay=["biass", "kernel"])
    with pytest.warns(UserWarning, match="'biass' matches none of the 4 variables.*could have meant: .*bias") as caught:
        optimizer.build(model.trainable_variables)
    assert len([each for each in caught if "matches none" in str(each.message)]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.build(model.trainable_variables)


def test_layer_statistics_tell_the_last_update():
    [kernel, bias] = variables("keras3", {"kernel": [3.0, 4.0], "bias": [0.0, 0.0]})
    optimizer = keras3.LAMB(learning_rate=0.1, exclude_from_layer_adaptation=["bias"], layer_statistics=True)
    with pytest.raises(ValueError, match="has made no update yet"):
        optimizer.layer_statistics()
    applied(optimizer, [[[1.0, 1.0], [1.0, 1.0]]], [kernel, bias])
    statistics = optimizer.layer_statistics()
    assert list(statistics) == ["kernel", "bias"]
    # The first direction is of ones: its norm is sqrt 2, and the ratio brings the step to 0.1 |w|.
    assert statistics["kernel"] == pytest.approx((5 / np.sqrt(2), 5.0, 0.5), rel=1e-5)
    assert statistics["bias"] == pytest.approx((1.0, 0.0, 0.1 * np.sqrt(2)), rel=1e-5)
    with pytest.raises(ValueError, match="layer_statistics=True"):
        keras3.LAMB().layer_statistics()


@pytest.mark.parametrize("arguments", [{}, {"jit_compile": True}, {"accumulation_steps": 2}])
@pytest.mark.parametrize("name, options", [("LAMB", {}), ("LARS", {"form": "momentum_ratio"})])
def test_gradients_of_another_shape_are_refused(name, options, arguments):
    [kernel] = variables("keras3", {"kernel": np.ones((2, 3))})
    optimizer = getattr(keras3, name)(**options, **arguments)
    with pytest.raises(
        ValueError, match=rf"{name}: the gradient of 'kernel' is of shape \(3,\), the variable of \(2, 3\)"
    ):
        optimizer.apply_gradients([(tf.ones(3), kernel)])
    np.testing.assert_array_equal(kernel.numpy(), np.ones((2, 3)))
    with pytest.raises(ValueError, match="accumulate_gradients: the gradient of 'kernel.*' is of shape"):
        optimizers.accumulate_gradients(lambda batch: [batch], tf.ones([2, 3]), [kernel], 2)


def test_integer_variables_are_refused_by_name():
    counter = keras.Variable(np.array([3, 4]), dtype="int32", name="counter")
    [kernel] = variables("keras3", {"kernel": [1.0]})
    optimizer = keras3.LAMB()
    with pytest.raises(ValueError, match="LAMB: 'counter' is of int32, .*[Mm]ake it with trainable=False"):
        optimizer.apply_gradients([(tf.ones(1), kernel), (tf.constant([0.4, 0.4]), counter)])
    # Without a gradient it changes nothing.
    optimizer.apply_gradients([(tf.ones(1), kernel), (None, counter)])
    np.testing.assert_array_equal(counter.numpy(), [3, 4])
    with pytest.raises(ValueError, match="accumulate_gradients: 'counter.*' is of int32"):
        optimizers.accumulate_gradients(lambda batch: [batch], tf.ones([2, 2]), [counter], 2)


def test_pre_normalised_gradients_are_of_global_norm_one():
    random = np.random.RandomState(5)
    weights = {"a": random.normal(size=6), "b": random.normal(size=(2, 3))}
    gradients = [[10 * random.normal(size=6), 10 * random.normal(size=(2, 3))] for _ in range(4)]
    ours = variables("keras3", weights)
    applied(keras3.LAMB(learning_rate=0.1, pre_normalize=True), gradients, ours)
    scaled = [[g / np.sqrt(sum((h**2).sum() for h in row)) for g in row] for row in gradients]
    for i, (variable, weight) in enumerate(zip(ours, weights.values())):
        expected = lamb_run(weight, [row[i] for row in scaled], [0.1] * 4, wd=0.0)
        np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("LARS", {"learning_rate": 0.5, "weight_decay": 0.01, "eeta": 0.05}),
        ("LAMB", {"learning_rate": 0.02, "weight_decay": 0.01}),
        ("Muon", {"treatments": [("table", "matrix")]}),
        ("Muon", {"treatments": [("table", "vector")]}),
    ],
)
@pytest.mark.parametrize("clipping", [{}, {"global_clipnorm": 0.5}, {"clipnorm": 0.5}, {"clipvalue": 0.1}])
def test_sparse_gradients_give_the_dense_result(name, arguments, clipping):
    # Row 0 comes twice: its two parts add up before anything is measured or clipped.
    sparse = tf.IndexedSlices(tf.constant([[1.0, 2.0], [3.0, 4.0], [0.5, 0.5]]), tf.constant([0, 2, 0]), (3, 2))
    results = []
    for gradient in (sparse, tf.convert_to_tensor(sparse)):
        variable = tf.Variable([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]], name="table")
        optimizer = getattr(keras3, name)(**arguments, **clipping)
        for _ in range(3):
            optimizer.apply_gradients([(gradient, variable)])
        results.append(variable.numpy())
    np.testing.assert_array_equal(*results)


# ---- Variables that a step overwrites with their gradients, as the scales of Keras 3's float8 layers ---------------

WRAPPED = {
    "LAMB": lambda inner: inner,
    "Adasum": lambda inner: keras3.Adasum(optimizer=inner),
    "loss scale": lambda inner: keras3.LossScaleOptimizer(inner_optimizer=inner),
}


def kernel_and_scale():
    kernel, scale = variables("keras3", {"kernel": [1.0, 2.0], "scale": [1.0]})
    scale.overwrite_with_gradient = True
    return kernel, scale


@pytest.mark.parametrize("around", WRAPPED)
def test_a_scale_is_its_gradient_and_has_no_state(around):
    kernel, scale = kernel_and_scale()
    # Adasum takes no averages of updates.
    averages = {} if around == "Adasum" else {"use_ema": True, "ema_overwrite_frequency": 2}
    optimizer = WRAPPED[around](keras3.LAMB(**averages))
    optimizer.build([kernel, scale])
    of_scale = [variable for variable in optimizer.variables if variable.shape == (1,)]
    assert not of_scale
    for value in (3.0, 0.5):
        optimizer.apply_gradients([(tf.constant([0.1, 0.2]), kernel), (tf.constant([value]), scale)])
        assert scale.numpy() == [value]
    assert kernel.numpy()[0] < 1.0
    optimizer.finalize_variable_values([kernel, scale])
    assert scale.numpy() == [0.5]
