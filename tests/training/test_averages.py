"""Moving averages of the weights (`use_ema`) in a run: evaluated, loaded and exported; training has the weights."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.runs import stopping, values_of
from tfbigbatch import tasks, train
from tfbigbatch.errors import Preempted
from tfbigbatch.export import export_run
from tfbigbatch.runs.load import load_run

MOMENTUM = 0.75
AVERAGED = {"use_ema": True, "ema_momentum": MOMENTUM}
LAMB = {"name": "lamb", "weight_decay": 0.01}


# The checkpoints of all steps are kept.
SHORT = {"duration": "8 steps", "evaluate_every": "4 steps", "checkpoint_every": "1 steps", "keep_checkpoints": 10}


def values_at(directory, step):
    return values_of(directory / "checkpoints" / f"step-{step}")


@pytest.fixture(scope="module")
def averaged(tmp_path_factory, quick_config):
    """The directory of a run with averages."""
    directory = tmp_path_factory.mktemp("averaged")
    train.run(quick_config(**SHORT, optimizer={**LAMB, **AVERAGED}), model_dir=str(directory))
    return directory


def average(index):
    """The name of a variable's average in a checkpoint."""
    return f"averages/{index}/.ATTRIBUTES/VARIABLE_VALUE"


@functools.cache
def expected_averages(directory, steps):
    """The averages after `steps`, of the weights in the checkpoints, from those of step 1."""
    values = values_at(directory, 1)
    count = sum(name.startswith("averages/") for name in values)
    found = [values[average(index)].astype(np.float64) for index in range(count)]
    network = load_run(directory, 1).network
    for step in range(2, steps + 1):
        tf.train.Checkpoint(network=network).restore(str(directory / "checkpoints" / f"step-{step}")).expect_partial()
        for index, variable in enumerate(network.trainable_variables):
            found[index] = MOMENTUM * found[index] + (1 - MOMENTUM) * variable.numpy().astype(np.float64)
    return found


def test_a_loaded_run_has_the_averages_and_its_evaluations_are_theirs(averaged, quick_config):
    for checkpoint in (8, "newest"):
        run = load_run(averaged, checkpoint)
        for variable, expected in zip(run.network.trainable_variables, expected_averages(averaged, 8)):
            np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-5, atol=1e-7)
    best = load_run(averaged, "best")
    for variable, expected in zip(best.network.trainable_variables, expected_averages(averaged, best.step)):
        np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-5, atol=1e-7)

    # The accuracy in the log is that of the loaded network on the same digits.
    run = load_run(averaged)
    task = tasks.get("digits_lstm")(model={"hidden_units": 8}, data={}, data_dir=None, use_fake_data=False)
    right = counted = 0.0
    for images, labels, mask in task.held_out("test").evaluation_batches(tf.distribute.InputContext(), batch_size=60):
        right += np.sum((np.argmax(run.network(images), axis=-1) == labels) * mask)
        counted += np.sum(mask)
    assert run.metrics["accuracy"] == pytest.approx(right / counted, abs=1e-6)


@pytest.mark.slow
def test_training_has_the_bits_of_a_run_without_averages(averaged, quick_config, tmp_path):
    train.run(quick_config(**SHORT, optimizer=LAMB), model_dir=str(tmp_path))
    with_averages, without = values_at(averaged, 8), values_at(tmp_path, 8)
    names = [name for name in without if name.startswith("network/")]
    assert names
    for name in names:
        np.testing.assert_array_equal(with_averages[name], without[name])


@pytest.mark.parametrize("replicas", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_stop_in_an_evaluation_saves_the_weights_and_the_resumed_run_ends_in_the_same_bits(
    tmp_path, quick_config, simulated_replicas, replicas, averaged
):
    def fields():
        return quick_config(**SHORT, optimizer={**LAMB, **AVERAGED}, simulated_replicas=replicas)

    # The first evaluation is after step 4.
    with pytest.raises(Preempted, match="after step 4, and saved"):
        train.run(fields(), model_dir=str(tmp_path / "stopped"), **stopping("evaluated batch 1"))
    train.run(fields(), model_dir=str(tmp_path / "stopped"))
    whole = averaged
    if replicas:
        whole = tmp_path / "whole"
        train.run(fields(), model_dir=str(whole))
    for step in (4, 8):
        np.testing.assert_equal(values_at(tmp_path / "stopped", step), values_at(whole, step))


@pytest.mark.slow
def test_a_new_run_begins_with_the_averages_of_another(averaged, quick_config, tmp_path):
    config = quick_config(**SHORT, optimizer={**LAMB, **AVERAGED})
    train.run(config, model_dir=str(tmp_path), init_from=str(averaged), stop_after=1)
    network = load_run(averaged).network
    start = values_at(tmp_path, 0)
    for index, variable in enumerate(network.trainable_variables):
        np.testing.assert_array_equal(start[average(index)], variable.numpy())


def test_export_writes_the_averages(averaged, tmp_path):
    exported = export_run(averaged, tmp_path / "out", formats=["keras"])
    saved = keras.saving.load_model(exported.files["keras"])
    np.testing.assert_equal(saved.get_weights(), load_run(averaged).network.get_weights())
