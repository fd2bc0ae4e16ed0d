"""LocalSteps: rounds, outer steps, state, files, errors."""

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import mirrored
from tests.helpers.local_quadratic import REPLICAS, Quadratic, expected

CASES = [
    {"every": 3},
    {"every": 1, "outer": "nesterov"},
    {"every": 3, "outer": "nesterov", "outer_learning_rate": 0.5, "outer_momentum": 0.6},
    {"every": 2, "outer": "adasum"},
    {"every": 3, "group_size": 2},
    {"every": 2, "data_parallel_steps": 4},
    {"every": 2, "data_parallel_steps": 4, "group_size": 2},
]


def quadratic(options, name="LocalSteps"):
    return Quadratic(mirrored(REPLICAS), "keras3", options, name)


@pytest.mark.parametrize(
    "options",
    [pytest.param(options, marks=[pytest.mark.slow] * (number in (1, 5))) for number, options in enumerate(CASES)],
)
def test_each_replica_takes_its_own_steps_and_outer_steps_combine_them(options):
    problem = quadratic(options)
    np.testing.assert_allclose(problem.train(0, 8), expected(8, options), rtol=1e-5, atol=1e-6)
    problem.optimizer.synchronize()
    ended = problem.weights()
    np.testing.assert_allclose(ended, expected(8, options, synchronize=True), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(ended, [ended[0]] * REPLICAS)
    problem.optimizer.synchronize()
    np.testing.assert_array_equal(problem.weights(), ended)


@pytest.mark.parametrize(
    "name, options",
    [
        ("LocalSteps", {"every": 3, "outer": "nesterov"}),
        ("Adasum", {"combine": "updates"}),
    ],
)
def test_a_checkpoint_in_the_middle_of_a_round_continues_in_the_same_bits(name, options, tmp_path):
    """Of Adasum, the moments of every replica."""

    def new():
        problem = quadratic(options, name=name)
        saved = problem.optimizer.checkpointing()
        more = {"of_replicas": saved["more"]["of_replicas"]}
        return problem, tf.train.Checkpoint(weight=problem.weight.value, optimizer=problem.optimizer, **more), saved

    undisturbed = new()[0].train(0, 10)
    first, checkpoint, saved = new()
    first.train(0, 5)
    saved["before_save"]()
    path = checkpoint.save(str(tmp_path / "checkpoint"))

    second, checkpoint, saved = new()
    checkpoint.restore(path).assert_consumed()
    saved["after_restore"]()
    np.testing.assert_array_equal(second.train(5, 10), undisturbed)
