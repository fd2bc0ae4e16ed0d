"""Batch normalisation in runs of few steps: a warning, and statistics that an evaluation recomputes."""

import keras
import numpy as np
import pytest

from tfbigbatch import tasks, train
from tfbigbatch.config import new_config
from tfbigbatch.run_directory.load import load_run

DRAW = np.random.default_rng(0)
X = (3 * DRAW.normal(size=(240, 6)) + 2).astype("float32")
Y = (X[:, 0] > 2).astype("int64")


def normalised():
    layers = keras.layers
    before = [layers.Input((6,)), layers.BatchNormalization(name="statistics"), layers.Dropout(0.3)]
    return keras.Sequential([*before, layers.Dense(8, "relu"), layers.Dense(2)])


def config_of(**fields):
    tasks.define("few_steps", network=normalised, data={"train": (X, Y), "validation": (X, Y)})
    config = new_config("few_steps")
    config.batch_size, config.accumulation_steps, config.duration = 48, 2, "10 steps"
    config.schedule.learning_rate, config.optimizer = 0.02, {"name": "lamb", "use_ema": True, "ema_momentum": 0.5}
    for name, value in fields.items():
        config[name] = value
    return config


@pytest.mark.parametrize("replicas", [0, pytest.param(4, marks=pytest.mark.slow)])
def test_evaluations_and_checkpoints_have_statistics_of_training_batches(tmp_path, capsys, replicas):
    config = config_of(simulated_replicas=replicas, evaluate_with_fresh_statistics=True)
    done = train.run(config, model_dir=str(tmp_path))
    assert "warning" not in capsys.readouterr().out
    network = load_run(tmp_path).network
    # Of the first layer: those of the examples, which an epoch of micro-batches of 24 has once.
    layer = network.get_layer("statistics")
    np.testing.assert_allclose(layer.moving_mean, X.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(layer.moving_variance, X.var(axis=0), rtol=0.4)
    right = np.mean(np.argmax(network(X, training=False), axis=-1) == Y)
    assert done["metrics"]["accuracy"] == pytest.approx(right, abs=1e-6)


@pytest.mark.slow
def test_the_weights_are_those_of_a_run_without_which_warns(tmp_path, capsys):
    networks = []
    for fresh in (False, True):
        config = config_of(evaluate_with_fresh_statistics=fresh)
        train.run(config, model_dir=str(tmp_path / str(fresh)), stop_after=5 if fresh else None)
        train.run(config, model_dir=str(tmp_path / str(fresh)))
        networks.append(load_run(tmp_path / str(fresh)).network)
        said = capsys.readouterr().out
        # A step has two micro-batches.
        assert ("momentum=0.99 keeps 82% of its first statistics over 20 batches" in said) == (not fresh)
    np.testing.assert_equal(*([each.numpy() for each in network.trainable_variables] for network in networks))
