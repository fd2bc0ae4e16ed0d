"""Steps that a checkpoint divides are those of one run, to the bit; and the norms that instruments read of steps."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import replicated
from tests.training.test_step import BATCH, LOSS_SCALED, classifier, compiled, examples, iterator, normalised
from tfbigbatch.instruments import StepGradients
from tfbigbatch.optimizers import keras3
from tfbigbatch.training.averages import optimizer_parts
from tfbigbatch.training.step import TrainingSteps


def dropped():
    return classifier(keras.layers.Dense(8, "relu"), keras.layers.Dropout(0.3))


CASES = {
    "dropout": (dropped, lambda: keras3.LAMB(0.02), {}),
    "dropout, XLA": (dropped, lambda: keras3.LAMB(0.02), {"jit_compile": True}),
    "batch normalisation": (normalised, lambda: keras.optimizers.SGD(0.1, momentum=0.9), {"accumulation_steps": 2}),
    "float16": (dropped, LOSS_SCALED["ours"], {}),
    "Adasum": (dropped, lambda: keras3.Adasum(keras3.LAMB(0.02)), {}),
    "local steps": (dropped, lambda: keras3.LocalSteps(keras3.LAMB(0.02), every=4), {}),
}


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_a_run_that_goes_on_ends_in_the_same_bits(tmp_path, case, replicas):
    network, optimizer, options = CASES[case]
    if case == "float16":
        keras.config.set_dtype_policy("mixed_float16")
    ends, path = [], None
    for parts in ([(0, 7)], [(0, 3), (3, 7)]):
        for first, last in parts:
            strategy = replicated(replicas)
            model = compiled(strategy, network, optimizer)
            if first:
                # Nothing may come from initialisation.
                for variable in [*model.variables, *model.optimizer.variables]:
                    variable.assign(variable + keras.ops.ones_like(variable))
            more = optimizer_parts(model.optimizer)
            assert len(more) == (replicas > 1 and case in ("Adasum", "local steps"))
            beside = {name: value for part in more for name, value in part.more.items()}
            checkpoint = tf.train.Checkpoint(network=model, optimizer=model.optimizer, **beside)
            if first:
                checkpoint.read(path).assert_existing_objects_matched()
                for part in more:
                    part.after_restore()
            steps = TrainingSteps(model, strategy=strategy, seed=5, **options)
            batches = iterator(strategy, examples())
            for _ in range(first):
                next(batches)
            steps(batches, first, last - first)
            for part in more:
                part.before_save()
            path = checkpoint.write(str(tmp_path / f"{len(parts)}-{last}"))
            for part in more:
                part.after_save()
        values = [v for v in [*model.variables, *model.optimizer.variables] if "seed_generator" not in v.path]
        copies = [copy for v in values for copy in strategy.experimental_local_results(getattr(v, "value", v))]
        ends.append([copy.numpy() for copy in copies])
    np.testing.assert_equal(*ends)


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
