"""A network with batch normalisation, whose replicas have statistics of their own, in a run's checkpoints."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.conftest import mirrored
from tests.helpers import normalised
from tests.helpers.runs import resumes
from tfbigbatch import experiment, keras2
from tfbigbatch.training.checkpoint_parts import replica_statistics
from tfbigbatch.training.checkpoints import Checkpoints

UNITS = 3


class Run:
    """Network and checkpoints on a number of replicas."""

    def __init__(self, replicas, directory, seed=0):
        self.strategy = mirrored(replicas) if replicas > 1 else tf.distribute.get_strategy()
        with self.strategy.scope():
            self.network = tf_keras.Sequential([tf_keras.layers.BatchNormalization(input_shape=(UNITS,))])
            optimizer = keras2.LAMB(0.01)
            optimizer.build(self.network.trainable_variables)
        parts = replica_statistics(self.strategy, self.network.weights)
        assert len(parts) == (replicas > 1)
        self.checkpoints = Checkpoints(self.network, optimizer, str(directory), parts=parts)
        random = np.random.RandomState(seed)
        for variable in self.network.non_trainable_weights:
            for copy in self.strategy.experimental_local_results(variable):
                copy.assign(random.uniform(size=UNITS))

    def values(self):
        """[variables, replicas, UNITS]."""
        rows = [self.strategy.experimental_local_results(each) for each in self.network.non_trainable_weights]
        return np.array([[copy.numpy() for copy in row] for row in rows])


@pytest.mark.parametrize("replicas", [1, 2, pytest.param(4, marks=pytest.mark.slow)])
def test_every_replica_gets_its_own_values_back(tmp_path, replicas):
    saved = Run(replicas, tmp_path)
    saved.checkpoints.save(0)
    restored = Run(replicas, tmp_path, seed=1)
    assert restored.checkpoints.restore() == 0
    np.testing.assert_array_equal(restored.values(), saved.values())
    restored.checkpoints.save(1)
    assert Run(replicas, tmp_path).checkpoints.latest_step() == 1


@pytest.mark.parametrize("before, after", [(2, 1), (1, 2), pytest.param(2, 4, marks=pytest.mark.slow)])
def test_another_number_of_replicas_begins_with_the_mean(tmp_path, before, after):
    saved = Run(before, tmp_path)
    saved.checkpoints.save(0)
    restored = Run(after, tmp_path, seed=1)
    assert restored.checkpoints.restore() == 0
    mean = saved.values().mean(1, keepdims=True)
    np.testing.assert_allclose(restored.values(), np.repeat(mean, after, 1), rtol=1e-6)


@pytest.mark.slow
def test_stopped_and_resumed_it_ends_in_the_same_bits(tmp_path):
    # Tests may forget the tasks of others.
    experiment.execute(normalised.__file__)
    config = normalised.get_config()
    config.duration, config.log_every, config.evaluate_every = "60 steps", "4 steps", "30 steps"
    resumes(tmp_path, config, 5, 31, strategy_name="mirrored")
