"""`tune` for a model of a function, and for an experiment: trained by the trainer, and what is refused."""

import os
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfbigbatch
from tfbigbatch import Recipe, train
from tfbigbatch.config import load_config, override
from tfbigbatch.errors import InputError
from tfbigbatch.run_directory import checkpoint_files, weights
from tfbigbatch.tuning.tune import tune_experiment

RANDOM = np.random.RandomState(0)
X = RANDOM.normal(size=(640, 8)).astype("float32")
Y = (X @ RANDOM.normal(size=(8, 3))).argmax(axis=1)
RECIPE = Recipe(8, 0.005, warmup_epochs=0.1, epochs=2, decay="linear", optimizer={"weight_decay": 0.01})


def network():
    return keras.Sequential([keras.layers.Dense(16, "relu"), keras.layers.Dense(3)])


def tune(**options):
    given = {"recipe": RECIPE, "batch_size": 32, "executor": "here", "say": lambda line: None, **options}
    return tfbigbatch.tune(given.pop("network", network), given.pop("data", (X, Y)), **given)


def weights_of(directory):
    return weights.read(checkpoint_files.paths(os.path.join(directory, "checkpoints"))[0])


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A small search, its folder, what it said, and the folder of the winner's run by the plain trainer."""
    folder, plain = tmp_path_factory.mktemp("search"), tmp_path_factory.mktemp("plain")
    said = []
    found = tune(budget=1.5, folder=folder, say=said.append)
    train.run(found.winner.config, model_dir=str(plain))
    return found, folder, said, plain


def test_a_model_is_trained_by_the_best_recipe(tuned):
    found, _, said, _ = tuned
    accuracy = np.mean(found.model.predict(X, verbose=0).argmax(axis=1) == Y)
    assert accuracy > 0.6 and 1.0 <= found.cost <= 1.5
    assert found.recipe.batch_size == 32 and found.recipe.epochs == 2
    assert found.optimizer["name"] == "adamw" and found.optimizer["weight_decay"] > 0
    assert found.winner.metrics["accuracy"] == max(each.metrics.get("accuracy", 0) for each in found.candidates)
    assert found.winner.curve[-1][0] == found.total_steps and len(found.winner.evaluations) == 2
    assert any(line.startswith("plan") for line in said) and any(line.startswith("rung") for line in said)
    # The recipe is one for the user's own fit.
    found.recipe.schedule(576, keras="keras3")


def test_the_winner_is_bit_for_bit_the_run_of_the_trainer_without_a_pause(tuned):
    found, _, _, folder = tuned
    plain, paused = weights_of(folder), weights_of(found.winner.directory)
    assert plain.keys() == paused.keys()
    for name, value in plain.items():
        np.testing.assert_array_equal(value, paused[name], err_msg=name)
    # The rows too, without the speeds.
    rows = []
    for directory in (folder, found.winner.directory):
        with open(os.path.join(directory, "metrics.jsonl")) as file:
            rows.append([re.sub(r'"(examples_per_second)": [^,}]+', "", line) for line in file])
    assert rows[0] == rows[1]


def test_the_same_call_on_the_same_folder_trains_nothing_again(tuned):
    found, folder, *_ = tuned
    before = {each.number: os.path.getmtime(os.path.join(each.directory, "status.json")) for each in found.candidates}
    again = tune(budget=1.5, folder=folder)
    assert again.winner.number == found.winner.number and again.cost == found.cost
    for each in again.candidates:
        assert os.path.getmtime(os.path.join(each.directory, "status.json")) == before[each.number]


def test_without_held_out_data_the_training_loss_decides(tmp_path):
    found = tune(held_out=None, budget=1.0)
    assert found.metric is None and "cannot see overfitting" in str(found)
    assert found.winner.evaluations == []


def once():
    yield X, Y


MODEL = keras.Sequential([keras.layers.Dense(3)])


@pytest.mark.parametrize(
    "options, message",
    [
        ({"budget": 0.5}, "tune: budget=0.5 is out of range; expected 1 or more runs"),
        ({"budget": float("nan")}, "tune: budget=nan"),
        ({"recipe": Recipe(8, 0.01)}, "expected a tfbigbatch.Recipe with its length, as epochs=10"),
        ({"recipe": {"learning_rate": 0.1}}, "expected a tfbigbatch.Recipe with its length"),
        ({"batch_size": 1000}, "batch_size=1,000 is larger than the 576 training examples"),
        ({"batch_size": 4}, "tune: batch_size=4 is out of range; expected a whole number of 8 or more"),
        ({"network": lambda: MODEL}, "network\\(\\) returned the same model twice"),
        ({"data": once()}, "data is a generator, which can be read once"),
        ({"held_out": iter([1])}, "held_out is a list_iterator, which can be read once"),
        ({"held_out": 1.5}, "tune: held_out=1.5 is out of range"),
        ({"held_out": 5}, "tune: held_out=5 is out of range"),
        ({"network": lambda width=3: MODEL}, "network\\(\\) returned the same model twice"),
        ({"rungs": (0.3, 0.1)}, "rungs=\\(0.3, 0.1\\); expected rising shares of a run"),
        ({"stay": (0.5,)}, "expected one share that stays for each rung"),
        ({"executor": "everywhere"}, "executor='everywhere'; expected a concurrent.futures.Executor"),
        ({"last": "best"}, "last='best'"),
        ({"optimizer": "adamm"}, "'adamm' is unknown"),
    ],
)
def test_what_cannot_be_used_is_refused_before_any_training(options, message, tmp_path):
    with pytest.raises(InputError, match=message):
        tune(**options, folder=tmp_path / "search")
    assert not (tmp_path / "search" / "candidate-00").exists()


@pytest.mark.slow
def test_two_processes_train_a_function_of_a_notebook():
    """A function without a module, and a dataset that its function makes."""
    width = 16
    data = lambda: tf.data.Dataset.from_tensor_slices((X, Y))
    found = tfbigbatch.tune(
        lambda: keras.Sequential([keras.layers.Dense(width, "relu"), keras.layers.Dense(3)]),
        data,
        (X[:64], Y[:64]),
        recipe=RECIPE,
        batch_size=32,
        budget=1.5,
    )
    assert np.mean(found.model.predict(X, verbose=0).argmax(axis=1) == Y) > 0.6


def test_an_experiment_with_a_ramp_is_refused(tmp_path):
    config = load_config("digits/lstm_small_batch")
    override(config, ["ramp.name=doubling", "ramp.to=128", "ramp.over=2 epochs"])
    with pytest.raises(InputError, match="expected one with a single batch size"):
        tune_experiment(config, batch_size=512, folder=str(tmp_path), executor="here", say=lambda line: None)
