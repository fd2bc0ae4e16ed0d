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
from tfbigbatch.run_directory import weights
from tfbigbatch.run_directory.load import load_run

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


def part_of(values, part):
    """The values of a part of a checkpoint, 'weights' or 'averages', by the variables' keys."""
    return {name.partition("/")[2]: value for name, value in values.items() if name.startswith(f"{part}/")}


@functools.cache
def expected_averages(directory, steps):
    """The averages after `steps`, of the weights in the checkpoints, from those of step 1."""
    found = part_of(values_at(directory, 1), "averages")
    for step in range(2, steps + 1):
        for name, value in part_of(values_at(directory, step), "weights").items():
            found[name] = MOMENTUM * found[name].astype(np.float64) + (1 - MOMENTUM) * value
    return found


def assert_averages(network, directory, steps):
    expected = expected_averages(directory, steps)
    assert len(network.trainable_variables) == len(expected)
    for path, variable in weights.by_path(network).items():
        key = path.replace("/", ".S") + "/.ATTRIBUTES/VARIABLE_VALUE"
        np.testing.assert_allclose(variable, expected[key], rtol=1e-5, atol=1e-7)


def test_a_loaded_run_has_the_averages_and_its_evaluations_are_theirs(averaged, quick_config):
    for checkpoint in (8, "newest"):
        assert_averages(load_run(averaged, checkpoint).network, averaged, 8)
    best = load_run(averaged, "best")
    assert_averages(best.network, averaged, best.step)

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
    with_averages, without = (part_of(values_at(each, 8), "weights") for each in (averaged, tmp_path))
    assert without
    np.testing.assert_equal(with_averages, without)


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
    start = values_at(tmp_path, 0)
    np.testing.assert_equal(part_of(start, "averages"), part_of(values_at(averaged, 8), "averages"))
    np.testing.assert_equal(part_of(start, "weights"), part_of(start, "averages"))


def test_export_writes_the_averages(averaged, tmp_path):
    exported = export_run(averaged, tmp_path / "out", formats=["keras"])
    saved = keras.saving.load_model(exported.files["keras"])
    np.testing.assert_equal(saved.get_weights(), load_run(averaged).network.get_weights())
