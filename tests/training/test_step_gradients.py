"""The norms that instruments read of the steps' own gradients."""

import keras
import numpy as np
import pytest

from tests.conftest import replicated
from tests.training.test_step import BATCH, compiled, iterator
from tfbigbatch.instruments import StepGradients
from tfbigbatch.optimizers import keras3
from tfbigbatch.training.step import TrainingSteps


@pytest.mark.parametrize("replicas, accumulation_steps", [(1, 4), (2, 2), pytest.param(2, 1, marks=pytest.mark.slow)])
def test_the_norms_are_those_of_the_micro_batches_and_of_their_mean(replicas, accumulation_steps):
    scaled = lambda: keras3.LossScaleOptimizer(keras3.LARS(0.1), initial_scale=64.0)
    x = np.random.RandomState(2).normal(size=(2 * BATCH, 3)).astype("float32")
    y = x[:, :1] * 2
    kernels, ends, norms = [], [], None
    for watches in (True, False):
        strategy = replicated(replicas)
        bare = lambda: keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, use_bias=False)])
        model = compiled(strategy, bare, scaled, loss="mse", weighted_metrics=[])
        with strategy.scope():
            seen = StepGradients(1) if watches else None
        options = {"accumulation_steps": accumulation_steps, "step_gradients": seen}
        steps, batches = TrainingSteps(model, strategy=strategy, **options), iterator(strategy, (x, y))
        for step in range(2):
            kernels += [model.trainable_variables[0].numpy()] if watches else []
            steps(batches, step, 1)
        ends.append(model.trainable_variables[0].numpy())
        norms = seen or norms
    np.testing.assert_array_equal(*ends)
    parts, small, large = replicas * accumulation_steps, [], []
    for step, kernel in enumerate(kernels):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        gradients = 2 * (x[rows] @ kernel - y[rows]) * x[rows]
        small.append((gradients.reshape(parts, -1, 3).mean(axis=1) ** 2).sum(axis=1).mean())
        large.append((gradients.mean(axis=0) ** 2).sum())
    np.testing.assert_allclose(norms.read(), (np.mean(small), np.mean(large), BATCH / parts, BATCH), rtol=1e-5)
    np.testing.assert_allclose(norms.layer_norms(), [np.sqrt(large[-1])], rtol=1e-5)
    assert norms.read() is None
