"""Gradients that are clipped or normalised before a step."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.keras_versions import applied, both_versions, make, variables
from tests.helpers.optimizers_in_numpy import lamb_run


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
@pytest.mark.parametrize(
    "name, arguments",
    [
        ("LARS", {"learning_rate": 0.5, "weight_decay": 0.01, "eeta": 0.05}),
        ("LAMB", {"learning_rate": 0.02, "weight_decay": 0.01}),
        ("Muon", {"matrices": [("table", "matrix")]}),
        ("Muon", {"matrices": [("table", "vector")]}),
    ],
)
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
